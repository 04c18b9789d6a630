// Checks that the server in this container is alive, with exit status 0 or 1, for HEALTHCHECK: the image has no curl. It does not
// check readiness: a server whose disk is full still delivers, and must not be killed for it.
const scheme = process.env.POSTHORN_HTTP__TLS === 'true' ? 'https' : 'http';
const { request } = await import(`node:${scheme}`);
const options = {
  host: '127.0.0.1',
  port: Number(process.argv[2] ?? process.env.POSTHORN_HTTP__PORT ?? 8025),
  path: '/healthz',
  timeout: 4000,
  // The certificate is for the name, not for this address.
  rejectUnauthorized: false,
};

request(options, (response) => {
  response.resume();
  process.exit(response.statusCode === 200 ? 0 : 1);
})
  .on('timeout', () => {
    console.error('no answer within 4 s');
    process.exit(1);
  })
  .on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  })
  .end();
