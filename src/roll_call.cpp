#include "src/roll_call.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/rank_place.h"
#include "src/text.h"

namespace tallsketch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAnswer = 1, kTold = 2;  // tags
constexpr std::size_t kMostNamed = 4;  // ranks of a kind; the others are counted

/// An answer on its way: small enough that MPI sends it without waiting for a receiver.
struct Message {
  double idle = 0;
  std::int64_t waiting = 0;
  std::array<char, 48> stage{};
};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

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

}  // namespace

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
    } else if (!answer->waiting) {
      add(at_work[answer->stage], rank, answer->idle);
    } else if (answer->stage != answers[0]->stage) {
      add(elsewhere[answer->stage], rank, answer->idle);
    }
  }
  std::string text;
  if (!silent.empty()) {
    text += fmt::format("; no word from {} (lost, stopped, cut off, or still at work)", named(silent, hosts));
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

RollCall::RollCall(const Communicator& comm) : rank_(comm.rank()) {
  if (comm.size() == 1 || !mpi_is_multithreaded()) return;
  check_mpi(MPI_Comm_dup(comm.handle(), &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  hosts_ = comm.gather(comm.host());
}

RollCall::~RollCall() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

std::string RollCall::ask(const Whereabouts& mine, double seconds) noexcept {
  if (comm_ == MPI_COMM_NULL) return "";
  std::vector<std::optional<Whereabouts>> answers(hosts_.size());
  answers[0] = mine;
  std::size_t missing = hosts_.size() - 1;
  for (const auto end = after(seconds); missing > 0 && Clock::now() < end;) {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kAnswer, comm_, &arrived, &status) != MPI_SUCCESS) break;
    if (arrived == 0) {
      pause();
      continue;
    }
    Message message;
    if (MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, kAnswer, comm_, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS)
      break;
    answers[static_cast<std::size_t>(status.MPI_SOURCE)] =
        Whereabouts{message.stage.data(), message.idle, message.waiting != 0};
    --missing;
  }
  std::vector<MPI_Request> told;
  for (std::size_t rank = 1; rank < answers.size(); ++rank) {
    if (!answers[rank]) continue;
    told.push_back(MPI_REQUEST_NULL);
    if (MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(rank), kTold, comm_, &told.back()) != MPI_SUCCESS) break;
  }
  int done = 0;
  for (const auto end = after(seconds); done == 0 && Clock::now() < end; pause()) {
    if (MPI_Testall(static_cast<int>(told.size()), told.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
  }
  return absent_text(answers, hosts_);
}

bool RollCall::answer(const Whereabouts& mine, double seconds) noexcept {
  if (comm_ == MPI_COMM_NULL) return false;
  Message message;
  message.idle = mine.idle;
  message.waiting = mine.waiting ? 1 : 0;
  std::memcpy(message.stage.data(), mine.stage.data(), std::min(mine.stage.size(), message.stage.size() - 1));
  MPI_Request sent = MPI_REQUEST_NULL, told = MPI_REQUEST_NULL;
  if (MPI_Irecv(nullptr, 0, MPI_BYTE, 0, kTold, comm_, &told) != MPI_SUCCESS) return false;
  if (MPI_Isend(&message, sizeof message, MPI_BYTE, 0, kAnswer, comm_, &sent) != MPI_SUCCESS) return false;
  int is_sent = 0, is_told = 0;
  for (const auto end = after(seconds); is_told == 0 && Clock::now() < end; pause()) {
    if (is_sent == 0 && MPI_Test(&sent, &is_sent, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (MPI_Test(&told, &is_told, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  }
  return is_told != 0;
}

}  // namespace tallsketch
