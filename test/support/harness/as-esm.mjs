// Tests are ES modules, as the program is. Where Node.js can `require` them, mocha would, and tsx would then load what is
// imported late (`await import()`) a second time beside it: the same class twice, and `instanceof` false.
Object.defineProperty(process.features, 'require_module', { get: () => false });
