#include "src/stop_request.h"

#include <utility>

namespace tallsketch {

Borders::Borders(const Communicator& comm, std::int64_t most, std::function<std::int64_t()> wish)
    : comm_(comm), most_(most), wish_(std::move(wish)) {}

Borders::~Borders() {
  const Communicator::Waiting waiting(comm_);
  if (request_ != MPI_REQUEST_NULL) MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

std::int64_t Borders::wait() {
  if (request_ == MPI_REQUEST_NULL) return agreed_;
  const Communicator::Waiting waiting(comm_);
  check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait");
  agreed_ = of_all_;
  return agreed_;
}

void Borders::start(std::int64_t wish) {
  mine_ = wish;
  count_ += 1;
  if (comm_.size() == 1) {  // no MPI: it need not allow it, while the reader may be in MPI-IO
    agreed_ = mine_;
    return;
  }
  check_mpi(MPI_Iallreduce(&mine_, &of_all_, 1, MPI_INT64_T, MPI_MAX, comm_.handle(), &request_), "MPI_Iallreduce");
}

std::int64_t Borders::next() {
  if (wait() != Wish::kGoOn) return agreed_;
  if (count_ < most_) start(wish_());
  return Wish::kGoOn;
}

std::int64_t Borders::finish() {
  while (count_ < most_ && wait() == Wish::kGoOn) start(wish_());
  return wait();
}

void Borders::leave() noexcept {
  try {
    if (wait() == Wish::kGoOn && count_ < most_) start(Wish::kLeave);
    wait();
  } catch (...) {  // MPI itself failed: the error that made this rank leave is the one to tell
  }
}

}  // namespace tallsketch
