#include "line_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace mezzo::optim {

namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // of the Wolfe conditions

/** Returns the minimum in [least, most] of the cubic through two points with their slopes; the
 *  middle if the cubic has none. */
double cubic_minimum(const LinePoint& a, const LinePoint& b, double least, double most) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (least + most) / 2;
  const double d2 = std::sqrt(square);
  const double t = a.t <= b.t
                       ? b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
                       : a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2));
  return std::min(std::max(t, least), most);
}

/** A search along a line. */
class Search {
 public:
  Search(const std::function<LinePoint(double)>& at, const LinePoint& start,
         const LineSearchOptions& options)
      : at_(at), start_(start), options_(options) {}

  LinePoint run() {
    if (bracket() || rounds_ >= options_.max_evaluations) return ends_[low_];
    while (rounds_ < options_.max_evaluations && !narrow()) {}
    return ends_[low_];
  }
  std::int64_t evaluations() const { return evaluations_; }

 private:
  LinePoint evaluate(double t) {
    ++evaluations_;
    return at_(t);
  }
  bool is_too_high(const LinePoint& p) const {
    return p.loss > start_.loss + kDecrease * p.t * start_.slope;
  }
  bool is_flat(const LinePoint& p) const { return std::abs(p.slope) <= -kCurvature * start_.slope; }
  void set_ends(const LinePoint& a, const LinePoint& b) {
    ends_ = {a, b};
    low_ = a.loss <= b.loss ? 0 : 1;
  }

  /** Finds two points between which a point satisfies the conditions. Returns true if one of those
   *  it has seen does; it is ends_[low_] then. */
  bool bracket() {
    LinePoint previous = start_, now = evaluate(options_.first);
    for (; rounds_ < options_.max_evaluations; ++rounds_) {
      if (is_too_high(now) || (rounds_ > 1 && now.loss >= previous.loss)) break;
      if (is_flat(now)) {
        set_ends(now, now);
        return true;
      }
      if (now.slope >= 0) break;
      const double next =
          cubic_minimum(previous, now, now.t + 0.01 * (now.t - previous.t), now.t * 10);
      previous = std::exchange(now, {});
      now = evaluate(next);
    }
    set_ends(rounds_ < options_.max_evaluations ? previous : start_, now);
    return false;
  }

  /** Returns a t between the ends, not too close to them twice in a row. */
  double between() {
    const double least = std::min(ends_[0].t, ends_[1].t), most = std::max(ends_[0].t, ends_[1].t);
    const double t = cubic_minimum(ends_[0], ends_[1], least, most), margin = 0.1 * (most - least);
    const bool is_close = std::min(most - t, t - least) < margin;
    const bool moves = is_close && (was_close_ || t >= most || t <= least);
    was_close_ = is_close && !moves;
    if (!moves) return t;
    return std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
  }

  /** Replaces an end by a point between them. Returns true at the end of the search. */
  bool narrow() {
    if (std::abs(ends_[1].t - ends_[0].t) * options_.largest_step < options_.tolerance_change)
      return true;
    const LinePoint now = evaluate(between());
    ++rounds_;
    LinePoint &low = ends_[low_], &high = ends_[1 - low_];
    if (is_too_high(now) || now.loss >= low.loss) {
      high = now;
      low_ = ends_[0].loss <= ends_[1].loss ? 0 : 1;
      return false;
    }
    const bool found = is_flat(now);
    if (!found && now.slope * (high.t - low.t) >= 0) high = low;
    low = now;
    return found;
  }

  const std::function<LinePoint(double)>& at_;
  const LinePoint& start_;
  const LineSearchOptions& options_;
  std::array<LinePoint, 2> ends_ = {};
  std::size_t low_ = 0;
  std::int64_t rounds_ = 0, evaluations_ = 0;
  bool was_close_ = false;  // the latest t was close to an end
};

}  // namespace

LinePoint strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start,
                       const LineSearchOptions& options, std::int64_t& evaluations) {
  Search search(at, start, options);
  const LinePoint found = search.run();
  evaluations = search.evaluations();
  return found;
}

}  // namespace mezzo::optim
