/**
 * Sends one query to one DNS server over UDP, or over TCP if the answer was cut. A new
 * socket for each query means a random source port from the kernel; a *connected* UDP socket lets the kernel drop packets
 * from any other address and report a closed port at once.
 */
import { createSocket } from 'node:dgram';
import { connect, isIP, isIPv6 } from 'node:net';
import { MAX_MESSAGE_BYTES } from './dns-message.ts';

export interface ServerAddress {
  ip: string;
  port: number;
}

export interface Asked {
  /** Sends the query once more; over TCP it does nothing. */
  repeat(): void;
  close(): void;
}

export interface AskedListener {
  message(bytes: Buffer): void;
  error(text: string): void;
}

/** Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` or `[2001:db8::1]:53`. Throws an Error on anything else: a fault in the settings. */
export function parseServerAddress(text: string): ServerAddress {
  if (isIP(text) !== 0) return { ip: text, port: 53 };
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text);
  const ip = match?.[1] ?? match?.[2] ?? '';
  const port = Number(match?.[3]);
  if (isIP(ip) === 0 || !(port >= 1 && port <= 65_535))
    throw new Error(`"${text}" is not the address of a DNS server: write ip, ip:port or [ipv6]:port`);
  return { ip, port };
}

export function askOverUdp(server: ServerAddress, query: Buffer, listener: AskedListener): Asked {
  const socket = createSocket(isIPv6(server.ip) ? 'udp6' : 'udp4');
  let open = true;
  let connected = false;
  const close = (): void => {
    if (!open) return;
    open = false;
    socket.close();
  };
  const fail = (error: Error): void => {
    if (open) listener.error(error.message);
  };
  const send = (): void => {
    if (open && connected)
      socket.send(query, (error) => {
        if (error !== null) fail(error);
      });
  };
  socket.on('error', fail);
  socket.on('message', (bytes) => {
    if (open) listener.message(bytes);
  });
  socket.once('connect', () => {
    connected = true;
    send();
  });
  socket.connect(server.port, server.ip);
  return { repeat: send, close };
}

export function askOverTcp(server: ServerAddress, query: Buffer, listener: AskedListener): Asked {
  const socket = connect({ host: server.ip, port: server.port, noDelay: true });
  let received = Buffer.alloc(0);
  const close = (): void => {
    socket.removeAllListeners('data');
    socket.destroy();
  };
  const prefix = Buffer.alloc(2);
  prefix.writeUInt16BE(query.length);
  socket.write(Buffer.concat([prefix, query]));
  socket.on('error', (error) => listener.error(error.message));
  socket.on('end', () => listener.error('the connection ended before the whole answer'));
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    if (received.length < 2) return;
    const length = received.readUInt16BE(0);
    if (length > MAX_MESSAGE_BYTES) {
      close();
      listener.error('the answer is too large');
    } else if (received.length >= 2 + length) {
      close();
      listener.message(received.subarray(2, 2 + length));
    }
  });
  return { repeat: () => undefined, close };
}
