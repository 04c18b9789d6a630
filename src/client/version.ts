/** The version of the service that this client was made with, as in package.json. */
export const madeFor = '1.0.0';
