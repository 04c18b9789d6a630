/**
 * Runs first in a confined process (`process.ts`), before the module that does its work: takes away what Node's permission model leaves. Node.js
 * before 25 leaves the network, so the functions that reach it are replaced for good; every release leaves the signals.
 */
import dgram from 'node:dgram';
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';

const closed = (): never => {
  throw Object.assign(new Error('a confined process reaches nothing'), { code: 'ERR_ACCESS_DENIED' });
};

/** Replaces all functions of an object, or those that are named. */
function close(object: object, names: readonly string[] = Object.getOwnPropertyNames(object)): void {
  for (const name of names) {
    const was = Object.getOwnPropertyDescriptor(object, name);
    if (name === 'constructor' || (was !== undefined && typeof was.value !== 'function')) continue;
    Object.defineProperty(object, name, { value: closed, writable: false, configurable: false });
  }
}

close(net.Socket.prototype, ['connect']);
close(net.Server.prototype, ['listen']);
close(net, ['_createServerHandle']);
close(dgram.Socket.prototype);
close(dgram);
for (const resolver of [dns.Resolver, dns.promises.Resolver]) close(resolver.prototype);
close(dns.promises);
close(dns);
close(process, ['kill', '_kill', '_debugProcess', '_linkedBinding', 'dlopen']);
close(globalThis, ['fetch', 'WebSocket', 'EventSource']);
syncBuiltinESMExports();
