#!/usr/bin/env node
// The `posthorn` command. CommonJS and old syntax on purpose: a Node.js that is too old must be able to read it and report that,
// and the size of the thread pool must be in the environment before any module is loaded.
'use strict';

var NEEDED = [20, 19];
var have = process.versions.node.split('.').map(Number);

if (have[0] < NEEDED[0] || (have[0] === NEEDED[0] && have[1] < NEEDED[1])) {
  console.error(
    'posthorn needs Node.js ' +
      NEEDED.join('.') +
      ' or newer; this is ' +
      process.versions.node +
      ' (' +
      process.execPath +
      ').',
  );
  process.exit(69);
}

if (!process.env.UV_THREADPOOL_SIZE) process.env.UV_THREADPOOL_SIZE = '8';

// By itself V8 lets a heap of 40 MB of live objects grow to 130 MB and more before it looks for garbage; with this, to 60 MB,
// for 3 to 6 % more CPU a message (docs/performance.md).
require('node:v8').setFlagsFromString('--heap-growing-percent=50');

var program = require('node:path').join(__dirname, '../../dist/src/main.js');
if (!require('node:fs').existsSync(program)) {
  console.error(
    'posthorn is not built yet. In ' + require('node:path').join(__dirname, '../..') + ' run: npm ci && npm run build',
  );
  process.exit(69);
}

import(require('node:url').pathToFileURL(program).href).catch(function (error) {
  // Its own modules take more than 64; connections and files come on top.
  if (error && error.code === 'EMFILE')
    console.error(
      'posthorn: this shell allows too few open files: run `ulimit -n 1024` or more (systemd: LimitNOFILE).',
    );
  else console.error(error);
  process.exit(70);
});
