/** A folder of a ledger, beside the pool of its database, which must have its directory for itself. */
export async function directoryOf(
  ledgerName: string,
  part: "files" | "inbox",
): Promise<FileSystemDirectoryHandle> {
  const root = await navigator.storage.getDirectory();
  const ledgers = await root.getDirectoryHandle("countersign", { create: true });
  const ledger = await ledgers.getDirectoryHandle(ledgerName, { create: true });
  return ledger.getDirectoryHandle(part, { create: true });
}
