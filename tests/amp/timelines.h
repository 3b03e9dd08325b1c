// Scripts of events for a loss scale, and the text in which tests state the expected outcome.
#pragma once

#include <cctype>
#include <sstream>
#include <string>

namespace timelines {

/** "1999.x" -> 1999 times ".x"; without a number once. */
struct Token {
  explicit Token(const std::string& word) {
    std::size_t digits = 0;
    while (digits < word.size() && std::isdigit(static_cast<unsigned char>(word[digits]))) ++digits;
    if (digits > 0) count = std::stoi(word.substr(0, digits));
    what = word.substr(digits);
  }
  bool has(char c) const { return what.find(c) != std::string::npos; }
  /** Returns the number after '='. */
  double value() const { return std::stod(what.substr(what.find('=') + 1)); }
  int count = 1;
  std::string what;
};

/** Plays a script word by word. `play(token)` returns the state after `count` times the token; the
 *  result is all states in one line. */
template <class Play> std::string sights(const std::string& script, const Play& play) {
  std::istringstream words(script);
  std::string word, out;
  while (words >> word) out += (out.empty() ? "" : " ") + play(Token(word));
  return out;
}

}  // namespace timelines
