/** Finds out whether a folder for backups can be written, before anything is made there. */
import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';

const RUN = 'run `sudo /opt/posthorn/systemd/paths.sh`, which reads the settings';

/** Returns null if the folder can be written, or made; else a sentence with cause and cure. Never rejects. */
export async function whyNotWritable(dir: string): Promise<string | null> {
  try {
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    return (await stat(dir)).isDirectory() ? null : `${dir} is not a folder: choose another one with backup.dir`;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code === 'ENOENT' && path.dirname(dir) !== dir) return await whyNotMade(dir);
    return sentence(dir, code === '' ? String(error) : code);
  }
}

async function whyNotMade(dir: string): Promise<string | null> {
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
    default:
      return `${dir} cannot be used (${code})`;
  }
}
