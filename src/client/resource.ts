/** The base of the groups of methods for one kind of record. */
import type { Transport } from './transport.ts';

export abstract class Resource {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }
}
