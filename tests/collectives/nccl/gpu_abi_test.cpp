// Our declarations of NCCL's and the CUDA driver's interfaces against nccl.h and cuda.h. Mostly at compile
// time.
#include "collectives/nccl/cuda_driver.hpp"

#include <cuda.h>
#include <nccl.h>

#include <type_traits>

#include "collectives/nccl/nccl_library.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
    return sizeof(Ours) == sizeof(Theirs) && static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(same(NcclResult::success, ncclSuccess));
static_assert(same(NcclResult::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(same(NcclResult::system_error, ncclSystemError));
static_assert(same(NcclResult::internal_error, ncclInternalError));
static_assert(same(NcclResult::invalid_argument, ncclInvalidArgument));
static_assert(same(NcclResult::invalid_usage, ncclInvalidUsage));
static_assert(same(NcclResult::remote_error, ncclRemoteError));
static_assert(same(NcclResult::in_progress, ncclInProgress));

static_assert(same(NcclType::int8, ncclInt8));
static_assert(same(NcclType::uint8, ncclUint8));
static_assert(same(NcclType::int32, ncclInt32));
static_assert(same(NcclType::uint32, ncclUint32));
static_assert(same(NcclType::int64, ncclInt64));
static_assert(same(NcclType::uint64, ncclUint64));
static_assert(same(NcclType::float16, ncclFloat16));
static_assert(same(NcclType::float32, ncclFloat32));
static_assert(same(NcclType::float64, ncclFloat64));
static_assert(same(NcclType::bfloat16, ncclBfloat16));

static_assert(same(NcclOp::sum, ncclSum));
static_assert(same(NcclOp::prod, ncclProd));
static_assert(same(NcclOp::max, ncclMax));
static_assert(same(NcclOp::min, ncclMin));
static_assert(same(NcclOp::avg, ncclAvg));
static_assert(same(NcclScalarResidence::device, ncclScalarDevice));
static_assert(same(NcclScalarResidence::host_immediate, ncclScalarHostImmediate));

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(NcclConfig::kUndefined == NCCL_CONFIG_UNDEF_INT);
// What ours has lies where theirs has it; theirs may have more behind it.
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));

static_assert(same(CudaResult::success, CUDA_SUCCESS));
static_assert(same(CudaResult::not_ready, CUDA_ERROR_NOT_READY));
static_assert(same(CudaCaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(same(CudaCaptureMode::thread_local_only, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(same(CudaCaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(same(CudaCaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(same(CudaCaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE));
static_assert(same(CudaCaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED));
static_assert(kCudaStreamDefault == CU_STREAM_DEFAULT && kCudaEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(sizeof(CudaPointer) == sizeof(CUdeviceptr) && sizeof(CudaDevice) == sizeof(CUdevice));

// Parameters that are passed alike: handles and pointers, enumerations and int, unsigned numbers of one size.
enum class Kind { pointer, enumeration, number, structure };

template <class T>
constexpr Kind kind_of() {
    if (std::is_pointer_v<T>) return Kind::pointer;
    if (std::is_enum_v<T>) return Kind::enumeration;
    return std::is_integral_v<T> ? Kind::number : Kind::structure;
}

template <class Ours, class Theirs>
constexpr bool alike() {
    return sizeof(Ours) == sizeof(Theirs) && kind_of<Ours>() == kind_of<Theirs>();
}

template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Alike<R (*)(A...), S (*)(B...)>
    : std::bool_constant<(alike<R, S>() && ... && alike<A, B>())> {
};

template <class Ours, class Theirs>
constexpr bool alike_functions(Ours NcclLibrary::*, Theirs) {
    return Alike<Ours, Theirs>::value;
}
template <class Ours, class Theirs>
constexpr bool alike_functions(Ours CudaDriver::*, Theirs) {
    return Alike<Ours, Theirs>::value;
}

static_assert(alike_functions(&NcclLibrary::get_version, &ncclGetVersion));
static_assert(alike_functions(&NcclLibrary::get_unique_id, &ncclGetUniqueId));
static_assert(alike_functions(&NcclLibrary::init_rank_config, &ncclCommInitRankConfig));
static_assert(alike_functions(&NcclLibrary::finalize, &ncclCommFinalize));
static_assert(alike_functions(&NcclLibrary::destroy, &ncclCommDestroy));
static_assert(alike_functions(&NcclLibrary::abort, &ncclCommAbort));
static_assert(alike_functions(&NcclLibrary::get_async_error, &ncclCommGetAsyncError));
static_assert(alike_functions(&NcclLibrary::get_error_string, &ncclGetErrorString));
static_assert(alike_functions(&NcclLibrary::get_last_error, &ncclGetLastError));
static_assert(alike_functions(&NcclLibrary::group_start, &ncclGroupStart));
static_assert(alike_functions(&NcclLibrary::group_end, &ncclGroupEnd));
static_assert(alike_functions(&NcclLibrary::create_premul_sum, &ncclRedOpCreatePreMulSum));
static_assert(alike_functions(&NcclLibrary::destroy_op, &ncclRedOpDestroy));
static_assert(alike_functions(&NcclLibrary::all_reduce, &ncclAllReduce));
static_assert(alike_functions(&NcclLibrary::broadcast, &ncclBroadcast));
static_assert(alike_functions(&NcclLibrary::reduce, &ncclReduce));
static_assert(alike_functions(&NcclLibrary::all_gather, &ncclAllGather));
static_assert(alike_functions(&NcclLibrary::reduce_scatter, &ncclReduceScatter));
static_assert(alike_functions(&NcclLibrary::send, &ncclSend));
static_assert(alike_functions(&NcclLibrary::recv, &ncclRecv));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static_assert(alike_functions(&NcclLibrary::all_to_all, &ncclAlltoAll));
static_assert(alike_functions(&NcclLibrary::gather, &ncclGather));
static_assert(alike_functions(&NcclLibrary::scatter, &ncclScatter));
#endif

static_assert(alike_functions(&CudaDriver::init, &cuInit));
static_assert(alike_functions(&CudaDriver::get_error_string, &cuGetErrorString));
static_assert(alike_functions(&CudaDriver::device_count, &cuDeviceGetCount));
static_assert(alike_functions(&CudaDriver::device_get, &cuDeviceGet));
static_assert(alike_functions(&CudaDriver::device_name, &cuDeviceGetName));
static_assert(alike_functions(&CudaDriver::primary_context_retain, &cuDevicePrimaryCtxRetain));
static_assert(alike_functions(&CudaDriver::primary_context_release, &cuDevicePrimaryCtxRelease));
static_assert(alike_functions(&CudaDriver::context_get_current, &cuCtxGetCurrent));
static_assert(alike_functions(&CudaDriver::context_set_current, &cuCtxSetCurrent));
static_assert(alike_functions(&CudaDriver::stream_create, &cuStreamCreate));
static_assert(alike_functions(&CudaDriver::stream_destroy, &cuStreamDestroy));
static_assert(alike_functions(&CudaDriver::stream_query, &cuStreamQuery));
static_assert(alike_functions(&CudaDriver::stream_is_capturing, &cuStreamIsCapturing));
static_assert(alike_functions(&CudaDriver::exchange_capture_mode, &cuThreadExchangeStreamCaptureMode));
static_assert(alike_functions(&CudaDriver::stream_wait_event, &cuStreamWaitEvent));
static_assert(alike_functions(&CudaDriver::event_create, &cuEventCreate));
static_assert(alike_functions(&CudaDriver::event_destroy, &cuEventDestroy));
static_assert(alike_functions(&CudaDriver::event_record, &cuEventRecord));
static_assert(alike_functions(&CudaDriver::event_query, &cuEventQuery));
static_assert(alike_functions(&CudaDriver::event_elapsed, &cuEventElapsedTime));
static_assert(alike_functions(&CudaDriver::memory_allocate, &cuMemAlloc));
static_assert(alike_functions(&CudaDriver::memory_free, &cuMemFree));
static_assert(alike_functions(&CudaDriver::copy_to_device, &cuMemcpyHtoD));
static_assert(alike_functions(&CudaDriver::copy_to_host, &cuMemcpyDtoH));
static_assert(alike_functions(&CudaDriver::copy_on_device, &cuMemcpyDtoDAsync));

}  // namespace

TEST_CASE("a configuration says what it is as NCCL's own does") {
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    const NcclConfig ours;
    CHECK(ours.magic == theirs.magic);
    CHECK(ours.version <= theirs.version);
    CHECK(ours.size == sizeof(NcclConfig));
    CHECK(ours.blocking == theirs.blocking);
    CHECK(ours.net_name == theirs.netName);
}
