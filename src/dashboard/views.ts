/** Handlebars views, compiled at start: faults show then. All but the HTML of chart.ts and markdown-it is escaped. Logic: loops and conditions. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import Handlebars from 'handlebars';
import { formHelpers, type Inputs, type Sources } from './view-forms.ts';
import { helpers } from './words.ts';

export type Views = ReturnType<typeof loadViews>;

const FOLDER = path.join(import.meta.dirname, 'views');

/** The sources of all views, by their names; those of parts begin with `_`. */
export const viewSources: Sources = new Map(
  readdirSync(FOLDER)
    .sort()
    .map((file) => [path.basename(file, '.hbs'), readFileSync(path.join(FOLDER, file), 'utf8')]),
);

/** Loads all views. Throws if one cannot be read or parsed. */
export function loadViews(inputs: Inputs) {
  const handlebars = Handlebars.create();
  const views = new Map<string, HandlebarsTemplateDelegate<object>>();
  for (const [name, source] of viewSources) {
    if (name.startsWith('_')) handlebars.registerPartial(name.slice(1), handlebars.compile(source));
    else views.set(name, handlebars.compile(source, { preventIndent: true }));
  }
  const part = (name: string, context: object, options: object): unknown =>
    new Handlebars.SafeString(
      (handlebars.partials as Record<string, HandlebarsTemplateDelegate>)[name]?.(context, options) ?? '',
    );
  for (const [name, helper] of Object.entries({ ...helpers, ...formHelpers(inputs, viewSources, part) }))
    handlebars.registerHelper(name, helper);
  const render = (name: string, data: object): string => {
    const template = views.get(name);
    if (template === undefined) throw new Error(`there is no view ${name}`);
    return template(data);
  };
  return {
    /** Returns a page without the layout. */
    alone: render,
    /** Returns the page's HTML. `frame` is the data of the layout. */
    page: (view: string, data: object, frame: object): string =>
      render('layout', { ...frame, hasEditor: 'hasEditor' in data, content: render(view, { ...frame, ...data }) }),
    /** Returns the inside of the page, with its title first. */
    part: (view: string, data: object, frame: object): string =>
      render('part', { ...frame, content: render(view, { ...frame, ...data }) }),
  };
}
