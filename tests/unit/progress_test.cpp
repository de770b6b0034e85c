// What rank 0 says while it works: the text, how often, whole lines from several threads, and silence.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "src/progress.h"
#include "src/watchdog.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using namespace std::chrono_literals;

namespace {

constexpr auto kNever = std::chrono::milliseconds(3600 * 1000);

/// A stream whose flushed lines can be read while others write.
class Lines {
 public:
  ~Lines() { std::fclose(file_); }
  std::FILE* stream() const { return file_; }
  std::string text() const {
    std::string all(1 << 22, '\0');
    const ssize_t bytes = ::pread(::fileno(file_), all.data(), all.size(), 0);
    all.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return all;
  }
  std::vector<std::string> all() const {
    const std::string written = text();
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < written.size();) {
      const std::size_t end = written.find('\n', begin);
      if (end == std::string::npos) break;
      lines.push_back(written.substr(begin, end - begin));
      begin = end + 1;
    }
    return lines;
  }
  /// Waits until so many lines are there; a machine under load may take its time.
  bool reach(std::size_t count) const {
    for (int i = 0; i < 4000 && all().size() < count; ++i) std::this_thread::sleep_for(5ms);
    return all().size() >= count;
  }

 private:
  std::FILE* file_ = std::tmpfile();
};

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

}  // namespace

TEST_CASE("The text says stage, pass, percent, rate and rest, as far as they are known") {
  CHECK(progress_text("sketch", 0.25, 2e9, 4, {}, 1) == "sketch: 25 %, 0.50 GB/s, about 12 s left");
  CHECK(progress_text("sketch", 1, 8e9, 4, {}, 1) == "sketch: 100 %, 2.00 GB/s, about 0 s left");
  CHECK(progress_text("sketch", 0, 0, 4, {}, 1) == "sketch: 0 %");
  CHECK(progress_text("sketch", 0.5, 1e9, 0, {}, 1) == "sketch: 50 %, about 0 s left");  // a clock that stood still
  CHECK(progress_text("sketch", 0.5, 1e9, 1, {}, 4) ==
        "sketch: 50 % of rank 0's rows, 4.00 GB/s if all 4 ranks keep its pace, about 1 s left");
  // Six passes of 10 GB and 40 % of the seventh in 64 s: 10 s a pass, 11.6 of them to go.
  CHECK(progress_text("refine", 0.4, 4e9, 64, {7, 18}, 1) ==
        "refine: pass 7 of about 18, 40 %, 1.00 GB/s, about 116 s left");
  CHECK(progress_text("refine", 0, 0, 60, {7, 18.4}, 1) == "refine: pass 7 of about 18, 0 %, about 124 s left");
  CHECK(progress_text("refine", 0.5, 1e9, 60, {1, 4}, 1) ==
        "refine: pass 1 of about 4, 50 %, 0.02 GB/s, about 420 s left");
}

TEST_CASE("More passes than expected, or no expectation, promise nothing") {
  CHECK(progress_text("refine", 0.5, 1e9, 37, {19, 18}, 1) == "refine: pass 19, 50 %, 1.00 GB/s");
  CHECK(progress_text("refine", 1, 1e9, 18, {18, 17.6}, 1) ==
        "refine: pass 18 of about 18, 100 %, 1.00 GB/s, about 0 s left");
  for (const double unknown : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                               -std::numeric_limits<double>::infinity()}) {
    CHECK(progress_text("refine", 1, 1e9, 2, {2, unknown}, 1) == "refine: pass 2, 100 %, 1.00 GB/s");
  }
}

TEST_CASE("Fractions write a line only where the last one is old enough") {
  const Lines lines;
  {
    Progress progress(lines.stream(), false, 1, {kNever, kNever});
    for (int i = 1; i <= 100; ++i) progress.fraction("sketch", i / 100.0, i);
    CHECK(lines.text().empty());
    progress.line("a line of another kind");  // always
    progress.fraction("sketch", 1, 1);
  }
  CHECK(lines.text() == "a line of another kind\n");
  const Lines more;
  {
    Progress progress(more.stream(), false, 1, {0ms, kNever});
    for (int i = 1; i <= 3; ++i) progress.fraction("sketch", i / 4.0, 0);
    progress.fraction("reduce", 0.5, 0);
  }
  REQUIRE(more.all().size() == 4);
  CHECK(begins(more.all()[0], "sketch: 25 %"));
  CHECK(begins(more.all()[2], "sketch: 75 %"));
  CHECK(begins(more.all()[3], "reduce: 50 %"));
}

TEST_CASE("A stage that says nothing is repeated by itself, with its last state or without one") {
  const Lines lines;
  {
    Progress progress(lines.stream(), false, 1, {kNever, 20ms});
    CHECK(lines.reach(2));
    progress.stage("factor");
    const std::size_t before = lines.all().size();
    CHECK(lines.reach(before + 3));
    progress.fraction("sketch", 0.43, 1e9);
    CHECK(lines.reach(lines.all().size() + 3));
    CHECK(begins(lines.all().back(), "sketch: 43 %, "));
    CHECK(lines.all().back().find("; unchanged for ") != std::string::npos);
    progress.stage("sketch");  // the same: its state stays
    CHECK(lines.reach(lines.all().size() + 3));
    CHECK(begins(lines.all().back(), "sketch: 43 %, "));
    progress.stage("reduce");  // another: the old state is gone
    CHECK(lines.reach(lines.all().size() + 3));
    CHECK(begins(lines.all().back(), "reduce: under way for "));
  }
  const std::vector<std::string> all = lines.all();
  CHECK(begins(all.front(), "start: under way for "));
  CHECK(std::count_if(all.begin(), all.end(), [](const auto& l) { return begins(l, "factor: under way for "); }) >= 2);
}

TEST_CASE("Lines that are written keep the repetition away") {
  using Clock = std::chrono::steady_clock;
  // Three times as long as a silence that is repeated into. On a machine that kept this thread waiting so long between two
  // lines the repetition is right, and nothing is shown: again, with more patience.
  bool shown = false;
  for (auto most = 100ms; !shown && most < 10s; most *= 2) {
    const Lines lines;
    std::size_t told = 0;
    const Clock::time_point start = Clock::now();
    Clock::time_point before = start;
    Clock::duration longest{0};  // from the call of one line to the end of the next
    Progress progress(lines.stream(), false, 1, {kNever, most});
    progress.stage("factor");
    for (; before - start < 3 * most; ++told) {
      const Clock::time_point called = Clock::now();
      progress.line("told");
      longest = std::max(longest, Clock::now() - before);
      before = called;
      std::this_thread::sleep_for(2ms);
    }
    const std::vector<std::string> all = lines.all();
    shown = std::max(longest, Clock::now() - before) < most;
    if (shown) CHECK(all == std::vector<std::string>(told, "told"));
  }
  if (!shown) WARN("this machine is too busy to tell");
}

TEST_CASE("Every stage that the watchdog watches is told") {
  const Lines lines;
  for (const double timeout : {0.0, 1000.0}) {  // also where the watchdog is off
    Progress progress(lines.stream(), false, 1, {kNever, 20ms});
    Watchdog watchdog(timeout, "test", &progress);
    watchdog.enter("stage of the watchdog");
    CHECK(lines.reach(lines.all().size() + 3));
    CHECK(begins(lines.all().back(), "stage of the watchdog: under way for "));
    progress.line("next");
  }
}

TEST_CASE("Lines of several threads and the repetition stay whole, and carry no control characters") {
  const Lines lines;
  {
    Progress progress(lines.stream(), false, 1, {0ms, 1ms});
    const auto talk = [&](const char* text) {
      for (int i = 0; i < 2000; ++i) progress.line(text);
    };
    std::thread first(talk, "first\x1b[31m\r line"), second(talk, "second\tline\x7f");
    for (int i = 0; i < 500; ++i) {
      progress.stage(i % 2 == 0 ? "even" : "odd");
      progress.fraction(i % 2 == 0 ? "even" : "odd", i / 500.0, i);
    }
    first.join();
    second.join();
  }
  int firsts = 0, seconds = 0;
  for (const std::string& line : lines.all()) {
    const bool first = line == "first\\x1b[31m\\x0d line", second = line == "second\\x09line\\x7f";
    firsts += first;
    seconds += second;
    if (!first && !second) {
      CAPTURE(line);
      CHECK((begins(line, "even: ") || begins(line, "odd: ") || begins(line, "start: ")));
    }
  }
  CHECK(firsts == 2000);
  CHECK(seconds == 2000);
}

TEST_CASE("Silence is silent, details are for --verbose, and an end does not wait for the next line") {
  const auto start = std::chrono::steady_clock::now();
  {
    Progress silent(nullptr, true, 3, {0ms, 1ms});
    silent.line("x");
    silent.detail("x");
    silent.stage("x");
    silent.fraction("x", 0.5, 1);
    const Lines lines;
    {
      Progress plain(lines.stream(), false, 1, {kNever, kNever});
      plain.detail("detail");
    }
    CHECK(lines.text().empty());
    {
      Progress verbose(lines.stream(), true, 1, {kNever, kNever});
      verbose.detail("detail");
    }
    CHECK(lines.text() == "detail\n");
  }
  CHECK(std::chrono::steady_clock::now() - start < 60s);  // of an hour
}

TEST_CASE("A warning is told once, however often it is given") {
  const Lines lines;
  Progress progress(lines.stream());
  progress.warning("few digits");
  progress.line("few digits");
  progress.warning("few digits");
  progress.warning("fewer digits");
  CHECK(lines.all() == std::vector<std::string>{"warning: few digits", "few digits", "warning: fewer digits"});
  Progress silent(nullptr);
  silent.warning("few digits");
}
