/**
 * What we use of smtp-server beyond its documentation: `send`, `close`, `_socket`, `_getEnhancedStatusCode` and `connectionReady` of a
 * connection, what it sends for a command that is switched off, that it takes sockets by the event `connection` of its net.Server, and
 * `connect` of a server. What its parser has of a mail is in `data-mode.ts`. Its types declare all of it;
 * `test/inbound/smtp-connection.test.ts` checks that it still does what is said here.
 */
import type { Socket } from 'node:net';
import type { SMTPServer } from 'smtp-server';
import type { SmtpRefusal } from './smtp-refusal.ts';

export type SmtpConnection = SMTPServer['connections'] extends Set<infer One> ? One : never;

/** A reply that begins with an enhanced status code (RFC 2034). */
const ENHANCED = /^[245]\.\d{1,3}\.\d{1,3} /;

/** RFC 5321 section 4.2.4. */
const UNKNOWN_COMMAND = 500;

/** The jokes of smtp-server. Scanners take its reply to `WIZ` for the back door of an old Sendmail. */
export const JOKES: readonly string[] = ['WIZ', 'SHELL', 'KILL'];

/** Returns the connection of a session, or undefined if it is closed already. */
export const findConnection = (server: SMTPServer, id: string): SmtpConnection | undefined =>
  [...server.connections].find((connection) => connection.id === id);

/** Keeps smtp-server from adding a status code to a reply that has one. Calls `replied` after each; `isCoded` is false for its own. */
export function keepEnhancedCodes(
  connection: SmtpConnection,
  replied: (code: number, reply: { isCoded: boolean }) => void,
): void {
  const send = connection.send.bind(connection);
  const codeFor = connection._getEnhancedStatusCode.bind(connection);
  let isCoded = false;
  connection._getEnhancedStatusCode = (code, context) => (isCoded ? '' : codeFor(code, context));
  connection.send = (code, data, context) => {
    isCoded = typeof data === 'string' && ENHANCED.test(data);
    send(code, data, context);
    const reply = { isCoded };
    isCoded = false;
    replied(code, reply);
  };
}

/** Has a command that is switched off refused like this, and not as one that does not exist. Called after `keepEnhancedCodes`. */
export function refuseCommand(connection: SmtpConnection, command: string, refusal: SmtpRefusal): void {
  const send = connection.send.bind(connection);
  connection.send = (code, data, context) => {
    if (code === UNKNOWN_COMMAND && context === command) send(refusal.code, refusal.text);
    else send(code, data, context);
  };
}

/** Has connections greeted at once: smtp-server waits 100 ms, so that it notices clients that speak first. */
export function greetAtOnce(server: SMTPServer): void {
  const connect = server.connect.bind(server);
  server.connect = (socket, options) => {
    connect(socket, options);
    for (const connection of server.connections) {
      if (connection._socket !== socket) continue;
      const ready = connection.connectionReady.bind(connection);
      connection.connectionReady = () => undefined;
      ready();
    }
  };
}

/** Sends a last reply and closes our side. */
export function endConnection(connection: SmtpConnection, code: number, text: string): void {
  connection.send(code, text);
  connection.close();
}

/** Ends the connection and frees its socket without waiting for the client to close its side. */
export function cutConnection(connection: SmtpConnection, code: number, text: string): void {
  endConnection(connection, code, text);
  connection._socket.destroySoon();
}

/** Asks before smtp-server takes a socket, and drops those that may not come. It asks by itself only when TLS has begun. */
export function guardSockets({ server }: SMTPServer, mayCome: (socket: Socket) => boolean): void {
  const takers = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (mayCome(socket)) for (const take of takers) take.call(server, socket);
    else socket.destroy();
  });
}
