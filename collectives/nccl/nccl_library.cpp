#include "collectives/nccl/nccl_library.hpp"

#include "collectives/nccl/shared_library.hpp"

namespace ddprun {
namespace {

constexpr const char* kNcclHelp =
    "set DDPRUN_NCCL_LIBRARY to the path of a libnccl.so.2, or use DDPRUN_BACKEND=cpu";

void bind_all(const SharedLibrary& library, NcclLibrary& nccl) {
    bind(library, "ncclGetUniqueId", nccl.get_unique_id);
    bind(library, "ncclCommInitRankConfig", nccl.init_rank_config);
    bind(library, "ncclCommFinalize", nccl.finalize);
    bind(library, "ncclCommDestroy", nccl.destroy);
    bind(library, "ncclCommAbort", nccl.abort);
    bind(library, "ncclCommGetAsyncError", nccl.get_async_error);
    bind(library, "ncclGetErrorString", nccl.get_error_string);
    bind(library, "ncclGetLastError", nccl.get_last_error);
    bind(library, "ncclGroupStart", nccl.group_start);
    bind(library, "ncclGroupEnd", nccl.group_end);
    bind(library, "ncclRedOpCreatePreMulSum", nccl.create_premul_sum);
    bind(library, "ncclRedOpDestroy", nccl.destroy_op);
    bind(library, "ncclAllReduce", nccl.all_reduce);
    bind(library, "ncclBroadcast", nccl.broadcast);
    bind(library, "ncclReduce", nccl.reduce);
    bind(library, "ncclAllGather", nccl.all_gather);
    bind(library, "ncclReduceScatter", nccl.reduce_scatter);
    bind(library, "ncclSend", nccl.send);
    bind(library, "ncclRecv", nccl.recv);
    bind_if_there(library, "ncclAlltoAll", nccl.all_to_all);
    bind_if_there(library, "ncclGather", nccl.gather);
    bind_if_there(library, "ncclScatter", nccl.scatter);
}

}  // namespace

std::shared_ptr<const NcclLibrary> NcclLibrary::open(const std::string& path) {
    const SharedLibrary library("NCCL", {path.empty() ? "libnccl.so.2" : path}, kNcclHelp);
    auto nccl = std::make_shared<NcclLibrary>();
    nccl->path = library.path();
    bind(library, "ncclGetVersion", nccl->get_version);
    if (nccl->get_version(&nccl->version) != NcclResult::success) library.refuse("does not tell its version");
    if (nccl->version < kMinNcclVersion) {
        library.refuse("is version " + nccl_version_text(nccl->version) + ", but at least " +
                       nccl_version_text(kMinNcclVersion) + " is needed");
    }
    bind_all(library, *nccl);
    return nccl;
}

std::string nccl_version_text(int version) {
    const int major_unit = version < 10'000 ? 1000 : 10'000;
    return std::to_string(version / major_unit) + '.' + std::to_string(version % major_unit / 100) + '.' +
           std::to_string(version % 100);
}

}  // namespace ddprun
