// What results and reports keep of the environment: a list of names, and nothing else. Others may hold passwords, tokens and
// addresses (AWS_SECRET_ACCESS_KEY, SLURM_JWT), and results are given away. Used by report.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tallsketch {

/// Name and value of the variables of the list that are set, in the order of the list: what the job is called, and what
/// threads, devices, libraries and the launcher are told. Of rank 0.
std::vector<std::pair<std::string, std::string>> recorded_environment();

}  // namespace tallsketch
