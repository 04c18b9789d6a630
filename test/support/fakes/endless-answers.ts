/** Answers of web servers that go on without end where a parser of HTTP keeps nothing and counts nothing. */
import type { Socket } from 'node:net';

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n';
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;

export const endlessAnswers: readonly { what: string; begin: string; piece: string }[] = [
  { what: 'an extension of a chunk', begin: `${CHUNKED}1;a=`, piece: 'x'.repeat(1000) },
  { what: 'empty lines before the status line', begin: '', piece: '\r\n'.repeat(500) },
  { what: 'zeros of the size of a chunk', begin: CHUNKED, piece: '0'.repeat(1000) },
  { what: 'blanks before the value of a field', begin: `${HEAD}X-A:`, piece: ' '.repeat(1000) },
  { what: 'informational answers', begin: '', piece: 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(40) },
];

/** Sends until the other side closes the connection. */
export function sendWithoutEnd(socket: Socket, begin: string, piece: string): void {
  socket.write(begin);
  const go = (): void => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', go);
  go();
}
