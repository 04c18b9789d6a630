/** Returns the path of an operation on the server, such as `/v1/server/queue/lanes` of `queue.lanes`. */
export const serverPath = (name: string): string => `/v1/server/${name.replaceAll('.', '/')}`;
