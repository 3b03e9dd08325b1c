#include "profile_rows.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string_view>

#include "../tensor/text/text.h"

namespace mezzo::detail {

namespace {

/** Returns a number with `digits` digits after the point, "-" for 0. */
std::string number(double value, int digits) {
  if (value == 0) return "-";
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<std::size_t>(length)};
}

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string_view pass_of(const ProfileRow& row) {
  if (row.kind == ProfileKind::outside) return "";
  return row.backward ? "bwd" : "fwd";
}

/** A column of the table: its title, the text of a row, and whether it has figures. */
struct Column {
  std::string_view title;
  std::function<std::string(const ProfileRow&)> text;
  bool shown = true;
  bool left = false;  // aligned left
};

double sort_value(const ProfileRow& row, ProfileSort sort_by) {
  switch (sort_by) {
    case ProfileSort::self_time: return row.self_time();
    case ProfileSort::total_time: return row.device_total_s > 0 ? row.device_total_s : row.total_s;
    case ProfileSort::calls: return static_cast<double>(row.calls);
    case ProfileSort::flops: return row.flops;
    case ProfileSort::bytes: return row.bytes;
    case ProfileSort::allocated: break;
  }
  return static_cast<double>(row.allocated);
}

/** Adds all figures but the totals, which overlap. */
void add(ProfileRow& sum, const ProfileRow& row) {
  sum.calls += row.calls;
  sum.self_s += row.self_s;
  sum.device_self_s += row.device_self_s;
  sum.flops += row.flops;
  sum.bytes += row.bytes;
  sum.floor_s += row.floor_s;
  sum.allocated += row.allocated;
}

ProfileRow sum_of(const std::vector<ProfileRow>& rows, std::string name) {
  ProfileRow sum;
  sum.kind = ProfileKind::outside;
  sum.op = std::move(name);
  for (const ProfileRow& row : rows) add(sum, row);
  return sum;
}

std::vector<Column> columns_of(const ProfileRow& sum, ProfileGroup group_by) {
  const bool device = sum.device_self_s > 0;
  const double whole = device ? sum.device_self_s : sum.self_s;
  return {
      {"module",
       [](const ProfileRow& row) {
         return row.kind == ProfileKind::outside ? row.op
                : row.module.empty()             ? std::string("(none)")
                                                 : row.module;
       },
       group_by != ProfileGroup::op, true},
      {"op",
       [=](const ProfileRow& row) {
         const bool named = group_by != ProfileGroup::op && row.kind == ProfileKind::outside;
         return named ? std::string() : row.op;
       },
       group_by != ProfileGroup::module, true},
      {"pass", [](const ProfileRow& row) { return std::string(pass_of(row)); }, true, true},
      {"calls",
       [](const ProfileRow& row) {
         return row.calls == 0 ? std::string("-") : std::to_string(row.calls);
       }},
      {"self %",
       [=](const ProfileRow& row) {
         return number(100 * rate(device ? row.device_self_s : row.self_s, whole), 1);
       }},
      {device ? "host self ms" : "self ms",
       [](const ProfileRow& row) { return number(1e3 * row.self_s, 3); }},
      {device ? "host total ms" : "total ms",
       [](const ProfileRow& row) { return number(1e3 * row.total_s, 3); }},
      {"device self ms", [](const ProfileRow& row) { return number(1e3 * row.device_self_s, 3); },
       device},
      {"device total ms", [](const ProfileRow& row) { return number(1e3 * row.device_total_s, 3); },
       device},
      {"us/call",
       [](const ProfileRow& row) {
         const bool is_sum = row.kind == ProfileKind::outside;
         return is_sum ? "-"
                       : number(1e6 * rate(row.self_time(), static_cast<double>(row.calls)), 1);
       }},
      {"GFLOP/s",
       [](const ProfileRow& row) { return number(1e-9 * rate(row.flops, row.self_time()), 1); },
       sum.flops > 0},
      {"GB/s",
       [](const ProfileRow& row) { return number(1e-9 * rate(row.bytes, row.self_time()), 1); },
       sum.bytes > 0},
      {"roof %",
       [](const ProfileRow& row) { return number(100 * rate(row.floor_s, row.self_time()), 0); },
       sum.floor_s > 0},
      {"alloc MB",
       [](const ProfileRow& row) { return number(1e-6 * static_cast<double>(row.allocated), 2); },
       sum.allocated > 0},
  };
}

using Lines = std::vector<std::vector<std::string>>;

std::vector<std::size_t> widths_of(const Lines& lines) {
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  return widths;
}

std::string aligned(const Lines& lines, const std::vector<Column>& columns) {
  const std::vector<std::size_t> widths = widths_of(lines);
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - line[i].size(), ' ');
      text += (i > 0 ? "  " : "") + (columns[i].left ? line[i] + space : space + line[i]);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

/** Returns "ops 95.1 %, ranges 3.0 %, outside ops 1.9 % of 12.345 ms". */
std::string summary_of(const std::vector<ProfileRow>& rows) {
  double by_kind[3] = {}, whole = 0;  // ops and their rules, ranges, outside
  for (const ProfileRow& row : rows) {
    const std::size_t place = row.kind == ProfileKind::outside ? 2
                              : row.kind == ProfileKind::range ? 1
                                                               : 0;
    by_kind[place] += row.self_s;
    whole += row.self_s;
  }
  const auto share = [&](double part) { return number(100 * rate(part, whole), 1) + " %"; };
  return str("host time: ops ", share(by_kind[0]), ", ranges ", share(by_kind[1]), ", outside ops ",
             share(by_kind[2]), " of ", number(1e3 * whole, 3), " ms\n");
}

}  // namespace

std::string table_of(std::vector<ProfileRow> rows, const ProfileTableOptions& options) {
  const ProfileRow sum = sum_of(rows, "sum");
  const auto is_outside = [](const ProfileRow& row) { return row.kind == ProfileKind::outside; };
  std::stable_sort(rows.begin(), rows.end(), [&](const ProfileRow& a, const ProfileRow& b) {
    if (is_outside(a) || is_outside(b)) return is_outside(b) && !is_outside(a);
    return sort_value(a, options.sort_by) > sort_value(b, options.sort_by);
  });
  std::string summary = options.group_by == ProfileGroup::module ? std::string() : summary_of(rows);
  if (rows.size() > options.rows + 2) {  // a row in place of a single one would gain nothing
    const auto cut = rows.begin() + static_cast<std::ptrdiff_t>(options.rows);
    const ProfileRow rest = sum_of({cut, rows.end() - 1}, str(rows.end() - 1 - cut, " other rows"));
    rows.erase(cut, rows.end() - 1);
    rows.insert(rows.end() - 1, rest);
  }
  rows.push_back(sum);
  std::vector<Column> columns = columns_of(sum, options.group_by);
  std::erase_if(columns, [](const Column& column) { return !column.shown; });
  Lines lines(1);
  for (const Column& column : columns) lines[0].emplace_back(column.title);
  for (const ProfileRow& row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const Column& column : columns) line.push_back(column.text(row));
  }
  return aligned(lines, columns) + summary;
}

}  // namespace mezzo::detail
