#include "collectives/nccl/nccl_library.hpp"

#include <fmt/core.h>

namespace ddprun::inline detail {

int NcclLibrary::checked_version() const {
    int found = 0;
    if (get_version(&found) != NcclResult::success) library.refuse("does not tell its version");
    if (found < kMinNcclVersion) {
        library.refuse(fmt::format("is version {}, but at least {} is needed", nccl_version_text(found),
                                   nccl_version_text(kMinNcclVersion)));
    }
    return found;
}

std::shared_ptr<const NcclLibrary> NcclLibrary::open(const std::string& path) {
    constexpr const char* kHelp =
        "set DDPRUN_NCCL_LIBRARY to the path of a libnccl.so.2, or use DDPRUN_BACKEND=cpu";
    return std::shared_ptr<const NcclLibrary>(
        new NcclLibrary({"NCCL", path.empty() ? "libnccl.so.2" : path, kHelp}));
}

std::string nccl_version_text(int version) {
    const int major_unit = version < 10'000 ? 1000 : 10'000;
    return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

}  // namespace ddprun::inline detail
