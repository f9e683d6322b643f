// NCCL settings: whether NCCL is to be the backend, by which libraries and on which device.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collectives/options.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline detail {

// NcclRings: lets NCCL reduce by rings, whose results are bitwise equal on all ranks and from run to run;
// what CommunicatorOptions::reproducible is made of.
//
// NCCL can be told so by its environment variable NCCL_ALGO only. It reads that each time it makes a
// communicator, so it is set while one is made, and unset again; it stays as it is where the user has set it.
// What cannot be had: a communicator that another thread of the process makes at that very moment may go by
// rings, too; and the environment changes, which other threads must not read by getenv() meanwhile.

// NCCL_ALGO takes algorithms for single operations from this version on.
inline constexpr int kNcclVersionWithAlgoByOperation = 22400;

// NCCL_ALGO is set to this. Operations that only move data keep NCCL's own choice where that is possible.
const char* nccl_rings(int version) noexcept;

// Whether a value of NCCL_ALGO lets all_reduce, reduce and reduce_scatter go by rings and nothing else. Pure.
bool reduces_by_rings(std::string_view algorithms);

// Sets NCCL_ALGO where it is not set; unset when the last of those objects has gone. Any thread.
class NcclRings {
  public:
    explicit NcclRings(int version);
    NcclRings(const NcclRings&) = delete;
    NcclRings& operator=(const NcclRings&) = delete;
    ~NcclRings();

  private:
    bool counted_;
};

struct NcclSettings {
    std::string nccl_library;  // paths; empty: the system's
    std::string cuda_library;
    int device = 0;
    bool reproducible = false;  // see NcclRings
};

// Reads the options and the environment: DDPRUN_BACKEND, DDPRUN_NCCL_LIBRARY, DDPRUN_CUDA_LIBRARY,
// DDPRUN_DEVICE; where that is not set, the device is that of `local_rank`, or of LOCAL_RANK if it is below
// 0. Nothing if the backend is not to be NCCL. Throws invalid_argument naming the variable that is wrong, as
// NCCL_ALGO is where it contradicts CommunicatorOptions::reproducible.
std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank);

}  // namespace ddprun::inline detail
