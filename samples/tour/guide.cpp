#include "guide.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

namespace samples::tour {

namespace {

constexpr std::size_t kColumns = 78;

/** Waits for the Enter key, or for the end of standard input. */
void wait_for_enter(std::ostream& out) {
  out << "  (Enter shows what happens)" << std::flush;
  std::string line;
  std::getline(std::cin, line);
  out << "\n";
}

}  // namespace

void Guide::paragraph(const std::string& text, const std::string& indent) {
  std::istringstream words(text);
  std::string word, line;
  while (words >> word) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      out_ << line << "\n";
      line.clear();
    }
    line += (line.empty() ? indent : " ") + word;
  }
  out_ << line << "\n";
}

void Guide::chapter(int number, const std::string& title) {
  const std::string heading = "Chapter " + std::to_string(number) + ": " + title;
  out_ << heading << "\n" << std::string(heading.size(), '=') << "\n\n";
}

void Guide::say(const std::string& text) {
  paragraph(text);
  out_ << "\n";
}

void Guide::ask(const std::string& question) {
  paragraph("Predict: " + question);
  if (options_.pauses) wait_for_enter(out_);
  out_ << "\nWhat happened:\n" << std::flush;
}

void Guide::show(const Table& table) {
  std::istringstream lines(table.text());
  for (std::string line; std::getline(lines, line);) show(line);
}

void Guide::show(const std::string& line) {
  if (line.size() + 2 > kColumns) return paragraph(line, "  ");
  out_ << (line.empty() ? "" : "  ") << line << "\n";
}

void Guide::explain(const std::string& sentence) {
  out_ << "\n";
  paragraph("Why: " + sentence);
  out_ << "\n";
}

std::string rounded(double value, int digits) {
  if (std::isnan(value)) return "nan";  // without the sign, which differs between CPUs
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string percent(double share, int digits) { return fixed(100 * share, digits) + " %"; }

std::string power_text(double value) {
  int exponent = 0;
  if (std::frexp(value, &exponent) != 0.5 || (value >= 1 && value <= 1024)) return rounded(value);
  return "2^" + std::to_string(exponent - 1);
}

}  // namespace samples::tour
