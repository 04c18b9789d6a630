// Shows the OpenAPI document with Swagger UI: to be read, without forms that send requests.
const place = document.getElementById('reference');
document.documentElement.classList.toggle('dark-mode', matchMedia('(prefers-color-scheme: dark)').matches);
const nothing = () => () => null;
SwaggerUIBundle({
  domNode: place,
  url: place.dataset.document,
  // What asks for JSON is taken for a program of the API.
  requestInterceptor: (request) => ({ ...request, headers: { ...request.headers, Accept: '*/*' } }),
  deepLinking: true,
  docExpansion: 'list',
  filter: true,
  defaultModelsExpandDepth: -1,
  supportedSubmitMethods: [],
  validatorUrl: null,
  plugins: [{ wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing } }],
});
