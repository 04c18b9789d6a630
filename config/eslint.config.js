/**
 * What no reader should have to look for by eye. Style is prettier's; here are the mistakes, and the doors of the house:
 * time, the environment and timers come in through src/base/clock.ts, src/config/surroundings.ts and src/bin only; for the client,
 * which is a program of its own, through src/client/surroundings.ts.
 */
import path from 'node:path';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

const root = path.resolve(import.meta.dirname, '..');

const USE_CLOCK = 'Take a Clock (src/base/clock.ts), so that a test can let time pass.';
const USE_SPANS = 'Spans of time have names in src/base/time.ts: HOUR_MS, DAY_MS.';
const USE_CONFIG = 'Settings come in through src/config/load.ts; everything else gets its slice handed in.';

/** Time and timers, in each way there is to reach them. */
const doors = {
  'no-restricted-globals': [
    'error',
    ...['setTimeout', 'setInterval', 'performance'].map((name) => ({ name, message: USE_CLOCK })),
  ],
  'no-restricted-imports': [
    'error',
    {
      paths: [
        ...['node:timers', 'node:timers/promises', 'node:perf_hooks', 'timers', 'timers/promises', 'perf_hooks'].map(
          (name) => ({ name, message: USE_CLOCK }),
        ),
        ...['node:process', 'process'].map((name) => ({ name, message: USE_CONFIG })),
      ],
    },
  ],
  'no-restricted-syntax': [
    'error',
    { selector: 'MemberExpression[object.name="Date"][property.name="now"]', message: USE_CLOCK },
    { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: USE_CLOCK },
    { selector: 'CallExpression[callee.name="Date"]', message: USE_CLOCK },
    { selector: 'MemberExpression[object.name="process"][property.name="env"]', message: USE_CONFIG },
    {
      selector:
        'MemberExpression[object.name="globalThis"][property.name=/^(setTimeout|setInterval|performance|process)$/]',
      message: USE_CLOCK,
    },
    { selector: 'Literal[raw=/^(3_?600_?000|86_?400_?000)$/]', message: USE_SPANS },
  ],
};

const tuned = {
  eqeqeq: ['error', 'always', { null: 'ignore' }],
  'no-constant-binary-expression': 'error',
  'no-fallthrough': 'error',
  'no-self-compare': 'error',
  'no-template-curly-in-string': 'error',
  'no-unsafe-finally': 'error',
  'no-console': 'error',
  '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'separate-type-imports' }],
  '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
  // A number in a text is what it looks like; objects and null are what the rule is for.
  '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
  '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
  '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: 'only-allowed-literals' }],
  // An implementation of an asynchronous interface is asynchronous whether or not it has to wait.
  '@typescript-eslint/require-await': 'off',
  '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
};

/** Tests may say what must not be said in the program: wrong values, promises that mocha waits for, the environment. */
const inTests = {
  'no-console': 'off',
  'no-restricted-globals': 'off',
  'no-restricted-imports': 'off',
  'no-restricted-syntax': 'off',
  '@typescript-eslint/no-empty-function': 'off',
  '@typescript-eslint/no-floating-promises': 'off',
  '@typescript-eslint/no-non-null-assertion': 'off',
  '@typescript-eslint/no-unused-expressions': 'off',
  '@typescript-eslint/unbound-method': 'off',
};

export default defineConfig(
  { ignores: ['dist', 'data', 'coverage', 'test/fixtures', 'test/dialogues'] },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: ['test/tsconfig.json'], tsconfigRootDir: root } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: { ...tuned, ...doors },
  },
  {
    files: ['src/base/clock.ts', 'src/config/surroundings.ts', 'src/client/surroundings.ts'],
    rules: { 'no-restricted-globals': 'off', 'no-restricted-syntax': 'off' },
  },
  { files: ['test/**/*.ts'], rules: inTests },
);
