// A first look at HDF5 files in a process of its own: HDF5 1.10 crashes on some damaged files, goes on for ever on others, and
// takes all memory for a third kind. There it ends the probe, and the run ends with code 3 and one message
// (docs/decisions/0027). Rank 0 alone starts it, once for all files of a run. Used by file_source; main is its other end.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tallsketch {

/// What is opened of a file.
struct ProbedFile {
  std::string path;
  std::vector<std::string> datasets;
};

/// argv[1] of a process that is a probe: main gives it the words behind that, before anything else happens.
inline constexpr const char* kProbeCommand = "__open-hdf5";
int run_probe(int argc, char** argv);

/// Opens files and datasets as the run will, and reads the first chunk of each (of up to 64 MiB in the first file, 8 MiB in
/// others), in a process that is limited to a minute of processor time for each file, and 512 MiB of memory. A probe that cannot be started is no error: the run then goes on without.
/// program     whose main calls run_probe; empty: no probe (a library in somebody else's program)
/// by_columns  as for Hdf5Dataset
/// progressed  called as the probe comes to each file: of many, it takes long
/// Errors      kInput: what the run would say of the first file that cannot be read; or that HDF5 crashes on it, or that it
///             does not come to an end
/// Cost        one process, 16 ms of processor time in a host build (docs/decisions/0027), and what opening the files takes
void probe_hdf5(const std::string& program, const std::vector<ProbedFile>& files, bool by_columns,
                const std::function<void()>& progressed = {});

}  // namespace tallsketch
