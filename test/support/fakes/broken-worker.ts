/** A module that cannot be loaded in a confined process. */
throw new Error('there is no parser');
