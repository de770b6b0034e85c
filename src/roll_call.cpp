#include "src/roll_call.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "src/rank_place.h"
#include "src/text.h"

namespace tallsketch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kOverdue = 1, kQuestion = 2, kAnswer = 3, kVerdict = 4;  // tags
constexpr std::size_t kMostNamed = 4;                                  // hosts in a text; the others are counted

/// "rank 2 on n1", "ranks 2-7 on n1, n2"
std::string named(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::vector<std::string> of_ranks;
  for (const int rank : ranks) {
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    if (std::find(of_ranks.begin(), of_ranks.end(), host) == of_ranks.end()) of_ranks.push_back(host);
  }
  const std::size_t shown = std::min(kMostNamed, of_ranks.size());
  std::string text =
      fmt::format("rank{} {} on {}", plural(static_cast<std::int64_t>(ranks.size())), runs_text(ranks),
                  fmt::join(of_ranks.begin(), of_ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (of_ranks.size() > shown) text += fmt::format(" and {} more nodes", of_ranks.size() - shown);
  return text;
}

/// Communicators of roll calls that ended with an error; freed when all ranks make the next.
std::vector<MPI_Comm>& left_behind() {
  static std::vector<MPI_Comm> communicators;
  return communicators;
}

}  // namespace

bool may_go_on(const std::vector<std::optional<Whereabouts>>& answers) {
  const auto is_missing = [](const auto& answer) { return !answer.has_value(); };
  const auto is_alive = [](const auto& answer) { return answer && answer->alive; };
  return std::none_of(answers.begin(), answers.end(), is_missing) &&
         std::any_of(answers.begin(), answers.end(), is_alive);
}

std::string absent_text(const std::vector<std::optional<Whereabouts>>& answers, const std::vector<std::string>& hosts) {
  struct Place {
    std::vector<int> ranks;
    double idle = 0;
  };
  std::vector<int> silent;
  std::map<std::string, Place> at_work, elsewhere;  // by stage
  const auto add = [](Place& place, std::size_t rank, double idle) {
    place.ranks.push_back(static_cast<int>(rank));
    place.idle = std::max(place.idle, idle);
  };
  for (std::size_t rank = 1; rank < answers.size(); ++rank) {
    const auto& answer = answers[rank];
    if (!answer) {
      silent.push_back(static_cast<int>(rank));
    } else if (answer->alive) {
      continue;
    } else if (!answer->waiting) {
      add(at_work[answer->stage], rank, answer->idle);
    } else if (answer->stage != answers[0]->stage) {
      add(elsewhere[answer->stage], rank, answer->idle);
    }
  }
  std::string text;
  if (!silent.empty()) {
    text += fmt::format("; no word from {} (lost, stopped or cut off)", named(silent, hosts));
  }
  for (const auto& [stage, place] : at_work) {
    text += fmt::format("; {} work{} in stage '{}' without progress for {:.0f} s", named(place.ranks, hosts),
                        place.ranks.size() == 1 ? "s" : "", stage, place.idle);
  }
  for (const auto& [stage, place] : elsewhere) {
    text +=
        fmt::format("; {} wait{} in stage '{}'", named(place.ranks, hosts), place.ranks.size() == 1 ? "s" : "", stage);
  }
  return text;
}

bool RollCall::is_possible() { return mpi_is_multithreaded(); }

RollCall::RollCall(const Communicator& comm) : rank_(comm.rank()), size_(comm.size()) {
  for (MPI_Comm& old : left_behind()) MPI_Comm_free(&old);
  left_behind().clear();
  check_mpi(MPI_Comm_dup(comm.handle(), &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  hosts_ = comm.gather(comm.host());
}

RollCall::~RollCall() {
  if (comm_ == MPI_COMM_NULL) return;
  if (std::uncaught_exceptions() == 0) {
    MPI_Comm_free(&comm_);
  } else {
    // Perhaps an error that only this rank knows of: it ends the job, and nothing collective may come before. If all ranks
    // have it, they go on, and free this later.
    left_behind().push_back(comm_);
  }
}

template <class T>
void RollCall::send(const T& message, int rank, int tag) {
  letters_.remove_if([](Letter& letter) {
    int done = 0;
    return MPI_Test(&letter.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
  });
  Letter& letter = letters_.emplace_back();
  static_assert(sizeof message <= sizeof letter.bytes);
  std::memcpy(letter.bytes.data(), &message, sizeof message);
  MPI_Isend(letter.bytes.data(), sizeof message, MPI_BYTE, rank, tag, comm_, &letter.request);
}

template <class T>
std::optional<T> RollCall::received(int rank, int tag, int* source) {
  int arrived = 0;
  MPI_Status status;
  if (MPI_Iprobe(rank, tag, comm_, &arrived, &status) != MPI_SUCCESS || arrived == 0) return std::nullopt;
  T message;
  const int from = status.MPI_SOURCE;
  if (MPI_Recv(&message, sizeof message, MPI_BYTE, from, tag, comm_, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return std::nullopt;
  }
  if (source != nullptr) *source = from;
  return message;
}

bool RollCall::is_asked_for() {
  bool asked = false;
  while (received<std::int64_t>(MPI_ANY_SOURCE, kOverdue)) asked = true;
  return asked;
}

std::vector<std::optional<Whereabouts>> RollCall::call(const Whereabouts& mine, double seconds) {
  std::vector<std::optional<Whereabouts>> answers(static_cast<std::size_t>(size_));
  answers[0] = mine;
  ++round_;
  for (int rank = 1; rank < size_; ++rank) send(round_, rank, kQuestion);
  int missing = size_ - 1;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (missing > 0 && Clock::now() < end) {
    int source = 0;
    const auto answer = received<Answer>(MPI_ANY_SOURCE, kAnswer, &source);
    if (!answer) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (answer->round == round_) {
      answers[static_cast<std::size_t>(source)] =
          Whereabouts{answer->stage.data(), answer->idle, answer->waiting != 0, answer->alive != 0};
      --missing;
    }
  }
  return answers;
}

void RollCall::announce(Verdict verdict) {
  for (int rank = 1; rank < size_; ++rank) send(verdict, rank, kVerdict);
}

void RollCall::ask_for() { send(std::int64_t{1}, 0, kOverdue); }

RollCall::Verdict RollCall::listen(const Whereabouts& mine) {
  while (const auto round = received<std::int64_t>(0, kQuestion)) {
    Answer answer{*round, mine.waiting ? 1 : 0, mine.alive ? 1 : 0, mine.idle, {}};
    std::memcpy(answer.stage.data(), mine.stage.data(), std::min(mine.stage.size(), answer.stage.size() - 1));
    send(answer, 0, kAnswer);
  }
  return received<Verdict>(0, kVerdict).value_or(Verdict::kNone);
}

}  // namespace tallsketch
