/** DMARC aggregate reports for tests (RFC 7489 appendix C). */
export interface SampleRow {
  ip: string;
  count: number | string;
  dkim?: string;
  spf?: string;
  disposition?: string;
}

export const dmarcXml = (
  domain: string,
  rows: readonly SampleRow[],
  { id = 'r1', begin = '1769817600', end = '1769903999' } = {},
): string =>
  `<?xml version="1.0" encoding="UTF-8" ?>
<feedback>
  <report_metadata><org_name>isp.test</org_name><email>noreply@isp.test</email><report_id>${id}</report_id>
    <date_range><begin>${begin}</begin><end>${end}</end></date_range></report_metadata>
  <policy_published><domain>${domain}</domain><adkim>r</adkim><aspf>r</aspf><p>none</p><sp>none</sp><pct>100</pct></policy_published>
${rows.map(rowXml).join('\n')}
</feedback>
`;

const rowXml = ({ ip, count, dkim = 'pass', spf = 'pass', disposition = 'none' }: SampleRow): string => `  <record>
    <row><source_ip>${ip}</source_ip><count>${String(count)}</count>
      <policy_evaluated><disposition>${disposition}</disposition><dkim>${dkim}</dkim><spf>${spf}</spf></policy_evaluated></row>
    <identifiers><header_from>acme.test</header_from><envelope_from>rp.acme.test</envelope_from></identifiers>
    <auth_results>
      <dkim><domain>acme.test</domain><selector>ph1</selector><result>${dkim}</result></dkim>
      <dkim><domain>other.test</domain><selector>x</selector><result>fail</result></dkim>
      <spf><domain>rp.acme.test</domain><result>${spf}</result></spf>
    </auth_results>
  </record>`;
