/** Reads the imports of a source file from its syntax tree, so that comments and strings that look like imports are not counted. */
import ts from 'typescript';

export interface Import {
  from: string;
  typeOnly: boolean;
  /** Null for a namespace, default or dynamic import. */
  names: readonly string[] | null;
}

export function importsOf(file: string, text: string): Import[] {
  const found: Import[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
      const clause = node.importClause;
      const named =
        clause?.name === undefined && clause?.namedBindings !== undefined && ts.isNamedImports(clause.namedBindings);
      const names =
        named && ts.isNamedImports(clause.namedBindings)
          ? clause.namedBindings.elements.map(({ name, propertyName }) => (propertyName ?? name).text)
          : null;
      found.push({
        from: node.moduleSpecifier.text,
        typeOnly: clause?.phaseModifier === ts.SyntaxKind.TypeKeyword,
        names,
      });
    } else if (
      ts.isExportDeclaration(node) &&
      node.moduleSpecifier !== undefined &&
      ts.isStringLiteral(node.moduleSpecifier)
    ) {
      found.push({ from: node.moduleSpecifier.text, typeOnly: node.isTypeOnly, names: null });
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [argument] = node.arguments;
      found.push({
        from: argument !== undefined && ts.isStringLiteral(argument) ? argument.text : '(computed)',
        typeOnly: false,
        names: null,
      });
    } else if (
      ts.isImportTypeNode(node) &&
      ts.isLiteralTypeNode(node.argument) &&
      ts.isStringLiteral(node.argument.literal)
    ) {
      found.push({ from: node.argument.literal.text, typeOnly: true, names: null });
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.ESNext));
  return found;
}
