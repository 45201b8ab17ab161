/** What TypeScript's DOM library leaves out, since it exists in workers only. */
declare global {
  interface FileSystemFileHandle {
    /** A handle for files in OPFS: exclusive, or shared among readers where the browser knows the mode. */
    createSyncAccessHandle(options?: { mode: "read-only" }): Promise<FileSystemSyncAccessHandle>;
    /** Moves the file and replaces what has that name. Missing in some browsers. */
    move?(directory: FileSystemDirectoryHandle, name: string): Promise<void>;
  }

  interface FileSystemSyncAccessHandle {
    /** Answers how many bytes were read: fewer at the end of the file. */
    read(into: Uint8Array, options: { at: number }): number;
    /** Answers how many bytes were written, which can be fewer than were given. */
    write(bytes: Uint8Array, options: { at: number }): number;
    truncate(sizeBytes: number): void;
    flush(): void;
    close(): void;
  }
}

export {};
