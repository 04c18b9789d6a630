/** Finds out whether a folder for backups can be written, before anything is made there. */
import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import { makeFolder } from '../base/make-folder.ts';

const RUN = 'run `sudo /opt/posthorn/systemd/paths.sh`, which reads the settings';

/** Returns null if the folder can be written, or made; else a sentence with cause and cure. Never rejects. */
export async function whyNotWritable(dir: string): Promise<string | null> {
  try {
    if (!(await stat(dir)).isDirectory()) return `${dir} is not a folder: choose another one with backup.dir`;
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code === 'ENOENT' && path.dirname(dir) !== dir) return await whyParentNotWritable(dir);
    return sentence(dir, code === '' ? String(error) : code);
  }
}

/** Makes the folder. Returns null, or a sentence with cause and cure: some file systems, such as /proc, have no folders to make. */
export function whyNotMade(dir: string): string | null {
  try {
    makeFolder(dir, 0o700);
    return null;
  } catch (error) {
    return sentence(dir, error instanceof Error && 'code' in error ? String(error.code) : String(error));
  }
}

async function whyParentNotWritable(dir: string): Promise<string | null> {
  const why = await whyNotWritable(path.dirname(dir));
  return why === null ? null : `${dir} is not there and cannot be made: ${why}`;
}

function sentence(dir: string, code: string): string {
  switch (code) {
    case 'EROFS':
      return `${dir} cannot be written, since its file system is read-only here (EROFS): under systemd the unit has to allow the folder, ${RUN}; elsewhere look at \`mount\``;
    case 'EACCES':
    case 'EPERM':
      return `this user (${String(process.getuid?.())}) may not write into ${dir} (${code}): as root, \`chown posthorn: ${dir}\`; where it is another disk, its mount point has to be passable too`;
    case 'ENOENT':
      return `${dir} cannot be made: its file system does not let folders be made there; choose another one with backup.dir`;
    default:
      return `${dir} cannot be used (${code})`;
  }
}
