/** Makes the public record of a row from the declaration of its table. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { ColumnForm, ComputedMember, Declared, PublicColumn, RowOf, Stored, Table } from './table.ts';

type NameOf<Column> = Column extends `${infer Name}_json` ? Name : Column;
type ShownBy<Member> = Member extends { readonly shown?: infer Shown } ? Shown : never;

type Public<Members> = {
  [Name in keyof Members as Members[Name] extends { readonly isPublic: true } ? Name : never]: Members[Name];
};
type Kinded<Kind> = Kind extends string ? { object: Kind } : unknown;

type Needed<Members> = Pick<
  RowOf<Table<Members>>,
  keyof { [Name in keyof Members as Members[Name] extends PublicColumn<unknown> ? Name : never]: true } &
    keyof RowOf<Table<Members>>
>;

/** All computed members, and other members that are not what their column says. */
type Given<Members> = {
  [Name in keyof Members as Members[Name] extends ComputedMember ? Name : never]: ShownBy<Members[Name]>;
} & {
  [Name in keyof Public<Stored<Members>> as NameOf<Name>]?: ShownBy<Public<Stored<Members>>[Name]>;
};

type Shown<Kind, Members, More> = Kinded<Kind> & {
  [Name in keyof Public<Members> as NameOf<Name>]: NameOf<Name> extends keyof More
    ? More[NameOf<Name>]
    : ShownBy<Public<Members>[Name]>;
};

type Make<Kind, Members> = (<More extends Given<Members>>(
  row: Readonly<Needed<Members>>,
  given: More,
) => Shown<Kind, Members, More>) &
  (object extends Given<Members> ? (row: Readonly<Needed<Members>>) => Shown<Kind, Members, object> : unknown);

/** A member of a record with its column, or what is declared in place of one. */
export interface RecordMember {
  name: string;
  column: Declared[string];
}

export interface RecordFacts {
  /** The value of the member `object`; null for a part of another record, which has none. */
  kind: string | null;
  members: readonly RecordMember[];
  /** The members that the audit keeps. */
  audited: readonly string[];
}

const shownAs: Readonly<Record<ColumnForm, (value: unknown) => unknown>> = {
  plain: (value) => value,
  time: (value) => rfc3339(value as number | null),
  flag: (value) => (value === null ? null : value === 1),
  texts: parsed,
  map: parsed,
  json: parsed,
};

function parsed(value: unknown): unknown {
  return value === null ? null : JSON.parse(value as string);
}

const nameOf = (column: string): string => column.replace(/_json$/, '');

/** Returns the function that makes records of this kind: the members of the table in their order, those that are given as they are given. */
export function recordOf<Kind extends string | null, Members extends Declared>(
  kind: Kind,
  table: Table<Members>,
): Make<Kind, Members> & RecordFacts {
  const columns = Object.entries<Declared[string]>(table.members).filter(([, { member }]) => member !== null);
  const steps = columns.map(([stored, { form }]) => ({ name: nameOf(stored), stored, show: shownAs[form] }));
  const members = columns.map(([stored, column]) => ({ name: nameOf(stored), column }));
  // A copy of an object with all members is twice as fast as adding them one by one.
  const blank = {
    ...(kind === null ? {} : { object: kind }),
    ...Object.fromEntries(steps.map(({ name }) => [name, null])),
  };
  const make = (row: Readonly<Record<string, unknown>>, given: Readonly<Record<string, unknown>> = {}) => {
    const record: Record<string, unknown> = { ...blank };
    for (const { name, stored, show } of steps) {
      const own = given[name];
      record[name] = own === undefined ? show(row[stored]) : own;
    }
    return record;
  };
  const audited = members.filter(({ column }) => column.member?.isAudited === true).map(({ name }) => name);
  return Object.assign(make, { kind, members, audited }) as unknown as Make<Kind, Members> & RecordFacts;
}

const stored: Readonly<Record<ColumnForm, (value: unknown) => unknown>> = {
  plain: (value) => value,
  time: (value) => Date.parse(value as string),
  flag: Number,
  texts: JSON.stringify,
  map: JSON.stringify,
  json: JSON.stringify,
};

/** Returns the given columns as they are stored: what `recordOf` shows, the other way round. */
export function columnsOf<Members extends Declared>(
  { columns }: Table<Members>,
  given: Readonly<{ [Name in keyof Stored<Members> as NameOf<Name>]?: ShownBy<Stored<Members>[Name]> | undefined }>,
): Partial<RowOf<Table<Members>>> {
  const values = given as Readonly<Record<string, unknown>>;
  const found = Object.entries<Declared[string]>(columns).flatMap(([column, { form }]) => {
    const value = values[nameOf(column)];
    return value === undefined ? [] : [[column, value === null ? null : stored[form](value)]];
  });
  // fromEntries forgets the names.
  return Object.fromEntries(found) as Partial<RowOf<Table<Members>>>;
}
