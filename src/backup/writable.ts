/** Finds out whether a folder for backups can be written, before anything is made there. */
import { existsSync } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from '../base/error-code.ts';
import { makeFolder } from '../base/make-folder.ts';

/** Returns null if the folder can be written, or made; else a sentence with cause and cure. Never rejects. */
export async function whyNotWritable(dir: string): Promise<string | null> {
  let there = dir;
  while (!existsSync(there) && path.dirname(there) !== there) there = path.dirname(there);
  try {
    if (!(await stat(there)).isDirectory()) return `${there} is not a folder: choose another one with backup.dir`;
    await access(there, constants.R_OK | constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return there === dir ? sentence(there, error) : `${dir} is not there and cannot be made: ${sentence(there, error)}`;
  }
}

/** Makes the folder. Returns null, or a sentence with cause and cure: some file systems, such as /proc, have no folders to make. */
export function whyNotMade(dir: string): string | null {
  try {
    makeFolder(dir, 0o700);
    return null;
  } catch (error) {
    return sentence(dir, error);
  }
}

function sentence(dir: string, error: unknown): string {
  switch (codeOf(error)) {
    case 'EROFS':
      return `${dir} cannot be written, since its file system is read-only here (EROFS): under systemd the unit has to allow the folder, run \`sudo /opt/posthorn/systemd/paths.sh\`, which reads the settings; elsewhere look at \`mount\``;
    case 'EACCES':
    case 'EPERM':
      return `this user (${String(process.getuid?.())}) may not write into ${dir} (${codeOf(error)}): as root, \`chown posthorn: ${dir}\`; if it is another disk, its mount point has to be passable too`;
    default:
      return `${dir} cannot be used (${codeOf(error)}): choose another folder with backup.dir`;
  }
}
