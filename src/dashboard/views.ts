/**
 * The Handlebars views: read and compiled once at start, so that a fault in one shows then and no visitor pays for it.
 * Everything is escaped; what is shown raw is only what chart.ts and markdown.ts make. Views hold no logic but loops and conditions.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import Handlebars from 'handlebars';
import { helpers } from './words.ts';

export interface Views {
  /** The page's HTML. `frame` is what the layout shows around it. */
  page(view: string, data: object, frame: object): string;
  /** The inside of the page alone, with its title before it. */
  part(view: string, data: object, frame: object): string;
}

const FOLDER = path.join(import.meta.dirname, 'views');

/** Throws where a view cannot be read or parsed. */
export function loadViews(): Views {
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
    page: (view, data, frame) =>
      render('layout', { ...frame, hasEditor: 'hasEditor' in data, content: render(view, { ...frame, ...data }) }),
    part: (view, data, frame) => render('part', { ...frame, content: render(view, { ...frame, ...data }) }),
  };
}
