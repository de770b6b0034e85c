#include "src/communicator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "kernels/half.h"
#include "src/cleanup.h"
#include "src/fault.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 27;  // keeps a message's bytes below 2^31
constexpr int kLastWord = 1;                                    // the tag of abort_alone's messages
// For other ranks to hear it: their watchdogs look five times a second, and then wait for 0.4 s.
constexpr std::chrono::milliseconds kParting{500};

}  // namespace

void check_mpi(int rc, const char* what, std::source_location where) {
  if (rc == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(rc, text.data(), &length);
  throw Error(ErrorKind::kCommunication, fmt::format("{} failed: {}", what, std::string(text.data())), where);
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  std::string line(text.data(), static_cast<std::size_t>(length));
  return line.substr(0, line.find_first_of(",\n"));
}

MpiSession::MpiSession(int& argc, char**& argv) {
  // Open MPI would print a backtrace where a process is killed by a damaged heap, and wait for ever for the heap's lock.
  ::setenv("OMPI_MCA_opal_signal", "", 0);
  int provided = 0;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  // The watchdog and NCCL run beside MPI; a library that cannot do that is refused at once, not found out later.
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw Error(ErrorKind::kCommunication,
                "this MPI library gives no thread support; tallsketch needs at least "
                "MPI_THREAD_SERIALIZED");
  }
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

bool mpi_is_multithreaded() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  return provided >= MPI_THREAD_MULTIPLE;
}

Communicator::Communicator(MPI_Comm comm) {
  check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  host_.assign(name.data(), static_cast<std::size_t>(length));

  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(node, &node_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &node_size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  std::int64_t leaders = node_rank_ == 0 ? 1 : 0;
  sum(&leaders, 1);
  nodes_ = static_cast<int>(leaders);
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

namespace {

template <class T>
void all_reduce(T* data, std::int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  for (std::int64_t done = 0; done < count; done += kBlockElements) {
    const auto block = static_cast<int>(std::min(kBlockElements, count - done));
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, data + done, block, type, op, comm), "MPI_Allreduce");
  }
}

/// The function of an MPI_Op: into[i] += from[i], in halves.
void add_halves(void* from, void* into, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const std::uint16_t*>(from);
  auto* const b = static_cast<std::uint16_t*>(into);
  for (int i = 0; i < *count; ++i) b[i] = float_to_half(half_to_float(a[i]) + half_to_float(b[i]));
}

}  // namespace

void Communicator::require_equal(std::int64_t count) const {
  const Waiting waiting(*this);
  std::array<std::int64_t, 2> bounds = {count, -count};
  all_reduce(bounds.data(), 2, MPI_INT64_T, MPI_MAX, comm_);
  if (bounds[0] == -bounds[1]) return;
  Error error(ErrorKind::kInternal,
              fmt::format("all-reduce counts differ between ranks: {} to {}", -bounds[1], bounds[0]));
  error.set_agreed();
  throw error;
}

void Communicator::sum(float* data, std::int64_t count) const {
  const Waiting waiting(*this);
  require_equal(count);
  all_reduce(data, count, MPI_FLOAT, MPI_SUM, comm_);
}

void Communicator::sum(double* data, std::int64_t count) const {
  const Waiting waiting(*this);
  require_equal(count);
  all_reduce(data, count, MPI_DOUBLE, MPI_SUM, comm_);
}

void Communicator::sum_halves(std::uint16_t* data, std::int64_t count) const {
  const Waiting waiting(*this);
  require_equal(count);
  constexpr int kCommutes = 1;
  MPI_Op add = MPI_OP_NULL;
  check_mpi(MPI_Op_create(add_halves, kCommutes, &add), "MPI_Op_create");
  all_reduce(data, count, MPI_UINT16_T, add, comm_);
  check_mpi(MPI_Op_free(&add), "MPI_Op_free");
}

void Communicator::sum(std::int64_t* data, std::int64_t count) const {
  const Waiting waiting(*this);
  all_reduce(data, count, MPI_INT64_T, MPI_SUM, comm_);
}

void Communicator::max(float* data, std::int64_t count) const {
  const Waiting waiting(*this);
  all_reduce(data, count, MPI_FLOAT, MPI_MAX, comm_);
}

void Communicator::max(double* data, std::int64_t count) const {
  const Waiting waiting(*this);
  all_reduce(data, count, MPI_DOUBLE, MPI_MAX, comm_);
}

std::int64_t Communicator::max(std::int64_t value) const {
  const Waiting waiting(*this);
  all_reduce(&value, 1, MPI_INT64_T, MPI_MAX, comm_);
  return value;
}

std::int64_t Communicator::min(std::int64_t value) const {
  const Waiting waiting(*this);
  all_reduce(&value, 1, MPI_INT64_T, MPI_MIN, comm_);
  return value;
}

void Communicator::broadcast(void* data, std::int64_t bytes) const {
  const Waiting waiting(*this);
  constexpr std::int64_t kBlockBytes = std::int64_t{1} << 30;
  auto* at = static_cast<char*>(data);
  for (std::int64_t done = 0; done < bytes; done += kBlockBytes) {
    const auto block = static_cast<int>(std::min(kBlockBytes, bytes - done));
    check_mpi(MPI_Bcast(at + done, block, MPI_BYTE, 0, comm_), "MPI_Bcast");
  }
}

std::string Communicator::broadcast(std::string text) const {
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(&length, static_cast<std::int64_t>(sizeof length));
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), length);
  return text;
}

std::vector<std::string> Communicator::all_gather(const std::string& text) const {
  const Waiting waiting(*this);
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_)), offsets(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_), "MPI_Allgather");
  int total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    offsets[i] = total;
    total += lengths[i];
  }
  std::string all(static_cast<std::size_t>(total), ' ');
  check_mpi(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, comm_),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

std::vector<int> Communicator::all_gather(int value) const {
  const Waiting waiting(*this);
  std::vector<int> values(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&value, 1, MPI_INT, values.data(), 1, MPI_INT, comm_), "MPI_Allgather");
  return values;
}

std::vector<std::string> Communicator::gather(const std::string& text) const {
  auto texts = all_gather(text);
  if (!is_root()) texts.clear();
  return texts;
}

std::vector<double> Communicator::gather(const std::vector<double>& values) const {
  const Waiting waiting(*this);
  const auto count = static_cast<int>(values.size());
  std::vector<double> all(is_root() ? values.size() * static_cast<std::size_t>(size_) : 0);
  check_mpi(MPI_Gather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0, comm_), "MPI_Gather");
  return all;
}

void Communicator::barrier() const {
  const Waiting waiting(*this);
  check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
}

void Communicator::together(const std::function<void()>& work) const {
  std::optional<Error> mine;
  try {
    fault_in_work();
    work();
  } catch (const std::exception& e) {
    mine = as_error(e);
  }
  agree(mine);
}

void Communicator::abort_alone(const Error& error) const {
  std::fputs(fmt::format("tallsketch: error: {} [rank {} on {}]\n", error.text(), rank_, host_).c_str(), stderr);
  std::fflush(stderr);
  remove_temporaries();
  ignore_ending_signals();
  if (size_ > 1 && mpi_is_multithreaded()) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
    const int code = error.exit_code();
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) {
        MPI_Isend(&code, 1, MPI_INT, rank, kLastWord, comm_, &requests[static_cast<std::size_t>(rank)]);
      }
    }
    // Not for all of them to have arrived: a rank may be lost.
    const auto end = std::chrono::steady_clock::now() + kParting;
    for (int sent = 0; std::chrono::steady_clock::now() < end;) {
      if (sent == 0) MPI_Testall(size_, requests.data(), &sent, MPI_STATUSES_IGNORE);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  MPI_Abort(comm_, error.exit_code());
  std::_Exit(error.exit_code());  // MPI_Abort does not return; the compiler does not know
}

std::optional<int> Communicator::last_word() const {
  int arrived = 0, code = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kLastWord, comm_, &arrived, &status) != MPI_SUCCESS || arrived == 0)
    return std::nullopt;
  if (MPI_Recv(&code, 1, MPI_INT, status.MPI_SOURCE, kLastWord, comm_, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return std::nullopt;
  }
  return code;
}

void Communicator::agree(const std::optional<Error>& mine) const {
  const Waiting waiting(*this);
  const auto first = static_cast<int>(min(std::int64_t{mine ? rank_ : size_}));
  if (first == size_) return;
  int kind = mine ? mine->exit_code() : 0;
  check_mpi(MPI_Bcast(&kind, 1, MPI_INT, first, comm_), "MPI_Bcast");
  std::string text;
  if (rank_ == first) {
    text = mine->text();
    if (size_ > 1) text += fmt::format(" [rank {} on {}]", rank_, host_);
  }
  int length = static_cast<int>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT, first, comm_), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(text.data(), length, MPI_CHAR, first, comm_), "MPI_Bcast");
  Error error(static_cast<ErrorKind>(kind), text);
  error.set_agreed();
  throw error;
}

}  // namespace tallsketch
