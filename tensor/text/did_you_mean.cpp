#include "did_you_mean.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mezzo {

namespace {

constexpr std::size_t kMostNames = 3;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/** Returns the number of insertions, deletions, replacements and swaps of neighbours that turn one
 *  name into the other. Differences in case are ignored. */
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view got, std::span<const std::string> known) {
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& name : known) {
    const std::size_t longer = std::max(got.size(), name.size());
    const std::size_t allowed = std::max<std::size_t>(1, longer / 3);
    if (longer - std::min(got.size(), name.size()) > allowed) continue;
    if (const std::size_t d = edit_distance(got, name); d <= allowed) near.emplace_back(d, &name);
  }
  if (near.empty()) return {};
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  near.resize(std::min(near.size(), kMostNames));
  std::string text = "did you mean ";
  for (std::size_t i = 0; i < near.size(); ++i) {
    if (i > 0) text += i + 1 == near.size() ? " or " : ", ";
    text += '"' + *near[i].second + '"';
  }
  return text + "?";
}

}  // namespace mezzo
