// Guide: prints the chapters of the tour. Each asks the reader for a prediction first.
#pragma once

#include <iosfwd>
#include <string>
#include <utility>

#include "../common/table.h"

namespace samples::tour {

/** Options of Guide. */
struct GuideOptions {
  bool pauses = false;               // ask() waits for a line of standard input
  std::string report = "tour.html";  // the page that chapter 8 writes
};

/** Prints headings, questions and answers, wrapped to 78 columns. */
class Guide {
 public:
  /** Prints to `out`. */
  explicit Guide(std::ostream& out, GuideOptions options = {})
      : out_(out), options_(std::move(options)) {}

  /** Returns the path of the page that chapter 8 writes. */
  const std::string& report() const { return options_.report; }

  /** Prints the heading of a chapter. */
  void chapter(int number, const std::string& title);
  /** Prints a paragraph. */
  void say(const std::string& text);
  /** Prints a question, waits if the guide pauses, and prints the heading of the answer. */
  void ask(const std::string& question);
  /** Prints a table, indented. */
  void show(const Table& table);
  /** Prints a line, indented; a long one is wrapped. */
  void show(const std::string& line);
  /** Prints the sentence that explains the answer. */
  void explain(const std::string& sentence);

 private:
  void paragraph(const std::string& text, const std::string& indent = "");

  std::ostream& out_;
  GuideOptions options_;
};

/** Returns a number with at most `digits` significant digits: "0.1", "1e-08", "inf". */
std::string rounded(double value, int digits = 6);
/** Returns a share in percent: "12.5 %". */
std::string percent(double share, int digits = 1);
/** Returns "2^-11" for such a power of two, and rounded() for numbers from 1 to 1024 and for those
 *  that are no power of two. */
std::string power_text(double value);

}  // namespace samples::tour
