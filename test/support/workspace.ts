/** Folders in OPFS for tests to work in. */

/** A new folder with these files, by path. */
export async function newWorkspace(
  files: Readonly<Record<string, string>>,
): Promise<FileSystemDirectoryHandle> {
  const root = await navigator.storage.getDirectory();
  const workspaces = await root.getDirectoryHandle("workspaces", { create: true });
  const directory = await workspaces.getDirectoryHandle(crypto.randomUUID(), { create: true });
  for (const [path, text] of Object.entries(files)) await writeText(directory, path, text);
  return directory;
}

export async function writeText(root: FileSystemDirectoryHandle, path: string, text: string): Promise<void> {
  const parts = path.split("/");
  let directory = root;
  for (const part of parts.slice(0, -1))
    directory = await directory.getDirectoryHandle(part, { create: true });
  const file = await directory.getFileHandle(parts.at(-1) ?? "", { create: true });
  const writable = await file.createWritable();
  await writable.write(text);
  await writable.close();
}

/** The texts of all files in a folder, by path. */
export async function readTexts(directory: FileSystemDirectoryHandle): Promise<Record<string, string>> {
  const texts: Record<string, string> = {};
  for await (const [name, handle] of directory.entries()) {
    if (handle instanceof FileSystemFileHandle) texts[name] = await (await handle.getFile()).text();
    else if (handle instanceof FileSystemDirectoryHandle)
      for (const [path, text] of Object.entries(await readTexts(handle))) texts[`${name}/${path}`] = text;
  }
  return texts;
}
