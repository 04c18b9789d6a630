type Word<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Word<Rest> : Text;

/** Returns the words of a text, each a type of its own. */
export const words = <const Text extends string>(text: Text) => text.split(' ') as Word<Text>[];
