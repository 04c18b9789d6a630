/** The operation that balances the books. */
import { z } from 'zod';
import { balance } from '../messages/store/books.ts';
import { onStore } from './operation.ts';

export const bookOperations = {
  books: onStore({
    act: null,
    args: z.strictObject({}),
    async run({ db }) {
      return await balance(db.reader);
    },
  }),
};
