/** Files of a mail: bytes become base64, in which the API takes them. */

/** A send request whose files may be bytes, such as what `readFile` gives. */
export type WithBytes<Body> = Body extends { attachments?: readonly (infer File)[] | null | undefined }
  ? Omit<Body, 'attachments' | 'recipients'> & {
      attachments?: readonly FileWithBytes<File>[] | null | undefined;
    } & (Body extends { recipients: readonly (infer Entry)[] } ? { recipients: readonly WithBytes<Entry>[] } : unknown)
  : Body;

type FileWithBytes<File> = Omit<File, 'content'> & { content: string | Uint8Array };

interface HasFiles {
  attachments?: readonly { content?: unknown }[] | null | undefined;
  recipients?: readonly unknown[] | null | undefined;
}

/** Returns the body with base64 in place of bytes. */
export function withBase64(body: object): object {
  const { attachments, recipients } = body as HasFiles;
  return {
    ...body,
    ...(Array.isArray(attachments) ? { attachments: attachments.map(encoded) } : {}),
    ...(Array.isArray(recipients)
      ? { recipients: recipients.map((one) => (isObject(one) ? withBase64(one) : (one as unknown))) }
      : {}),
  };
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

function encoded(file: unknown): unknown {
  if (!isObject(file) || !('content' in file) || !(file.content instanceof Uint8Array)) return file;
  return { ...file, content: base64(file.content) };
}

/** Characters that one call makes: arguments are limited. */
const AT_ONCE = 0x8000;

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += AT_ONCE) text += String.fromCharCode(...bytes.subarray(at, at + AT_ONCE));
  return btoa(text);
}
