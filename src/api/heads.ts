/** The limits of a request's head, of which Node keeps what has arrived until its end or for 30 s. */
import type { RequestListener, Server } from 'node:http';
import { budgets } from '../base/budgets.ts';

export const headLimits = { maxHeaderSize: budgets.http_head_bytes.most } as const;
/** Node's code of a head with too many bytes, and since version 24 of one with too many fields. */
export const HEAD_OVERFLOW = 'HPE_HEADER_OVERFLOW';
export const MOST_FIELDS = 100;

/**
 * Hands the requests of a server to its listener, except those with too many fields. Node before version 24 drops what comes after the limit
 * without a word, which may be the key, or what a proxy says of the client: so such a request is refused whole. One of HTTP/0.9, which Node
 * takes too, has no head at all.
 */
export function takeRequests(server: Server, listener: RequestListener): RequestListener {
  server.maxHeadersCount = MOST_FIELDS;
  const take: RequestListener = (req, res) => {
    // Node leaves the surplus of the last fields that it read here.
    const isOld = req.httpVersionMajor < 1;
    if (!isOld && req.rawHeaders.length <= 2 * MOST_FIELDS) {
      listener(req, res);
      return;
    }
    const error = Object.assign(new Error('refused'), { code: isOld ? 'HPE_INVALID_VERSION' : HEAD_OVERFLOW });
    if (!server.emit('clientError', error, req.socket)) res.writeHead(400, { Connection: 'close' }).end();
  };
  server.on('request', take);
  return take;
}
