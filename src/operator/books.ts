/** The operation that balances the books. */
import { balance } from '../messages/store/books.ts';
import { storeRoute } from './server-route.ts';

export const bookOperations = {
  books: storeRoute({
    async run({ db }) {
      return await balance(db.reader);
    },
  }),
};
