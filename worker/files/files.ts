import type { Sha256 } from "../../src/proof/sha256.ts";
import { type BlobState, type BlobStore, type Hold, openBlobStore } from "./blob-store.ts";
import { verifyTree } from "./tree.ts";

/** What commands ask of the ledger's files: the content-addressed store beside the database. */
export class Files {
  readonly #directory: () => Promise<FileSystemDirectoryHandle>;
  #store: Promise<BlobStore> | undefined;

  /** @param directory where the store lies; asked for once, when a command first needs files. */
  constructor(directory: () => Promise<FileSystemDirectoryHandle>) {
    this.#directory = directory;
  }

  /** Whether a workspace tree, and every blob that it names, is there whole. */
  async isRestorable(treeId: string): Promise<boolean> {
    return verifyTree(await this.store(), treeId as Sha256);
  }

  /** Runs work that stores blobs; what it stored is safe from collection until it ends. */
  async holding<Result>(work: (hold: Hold) => Promise<Result>): Promise<Result> {
    const hold = (await this.store()).hold();
    try {
      return await work(hold);
    } finally {
      hold.release();
    }
  }

  /** Whether there is a blob, or a tree's manifest, under the digest. */
  async has(sha256: Sha256): Promise<boolean> {
    return (await this.store()).has(sha256);
  }

  /** Reads a blob and says in what state it is. */
  async check(sha256: Sha256, sizeBytes: number): Promise<BlobState> {
    return (await this.store()).check(sha256, sizeBytes);
  }

  /** @throws NotFoundError `blob_missing` */
  async open(sha256: Sha256): Promise<File> {
    return (await this.store()).open(sha256);
  }

  store(): Promise<BlobStore> {
    this.#store ??= this.#directory().then(openBlobStore);
    return this.#store;
  }
}
