/**
 * The Handlebars views, read and compiled once at start, so that a fault in one shows then.
 * Everything is escaped except the HTML that chart.ts and markdown-it make. Views hold no logic but loops and conditions.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import Handlebars from 'handlebars';
import { helpers } from './words.ts';

export type Views = ReturnType<typeof loadViews>;

const FOLDER = path.join(import.meta.dirname, 'views');

/** Loads all views. Throws if one cannot be read or parsed. */
export function loadViews() {
  const handlebars = Handlebars.create();
  for (const [name, helper] of Object.entries(helpers)) handlebars.registerHelper(name, helper);
  const views = new Map<string, HandlebarsTemplateDelegate<object>>();
  for (const file of readdirSync(FOLDER).sort()) {
    const name = path.basename(file, '.hbs');
    const source = readFileSync(path.join(FOLDER, file), 'utf8');
    if (name.startsWith('_')) handlebars.registerPartial(name.slice(1), source);
    else views.set(name, handlebars.compile(source, { preventIndent: true }));
  }
  const render = (name: string, data: object): string => {
    const template = views.get(name);
    if (template === undefined) throw new Error(`there is no view ${name}`);
    return template(data);
  };
  return {
    /** Returns the page's HTML. `frame` is the data of the layout. */
    page: (view: string, data: object, frame: object): string =>
      render('layout', { ...frame, hasEditor: 'hasEditor' in data, content: render(view, { ...frame, ...data }) }),
    /** Returns the inside of the page, with its title first. */
    part: (view: string, data: object, frame: object): string =>
      render('part', { ...frame, content: render(view, { ...frame, ...data }) }),
  };
}
