#include "collectives/solo_backend.hpp"

#include <cstring>

#include "rendezvous/check.hpp"

namespace ddprun {
namespace {

void copy(void* out, const void* in, std::size_t count, DataType type) {
    if (count > 0 && out != in) std::memcpy(out, in, count * size_of(type));
}

}  // namespace

void SoloBackend::enter(Operation operation, std::size_t count, DataType type) {
    const std::lock_guard lock(mutex_);
    const Call call{operation, type, ReduceOp::sum, -1, count, ++sequence_};
    if (verdict_) throw error_of(*verdict_, call);
}

void SoloBackend::all_reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp) {
    enter(Operation::all_reduce, count, type);
    copy(out, in, count, type);
}

void SoloBackend::broadcast(void*, std::size_t count, DataType type, int) {
    enter(Operation::broadcast, count, type);
}

void SoloBackend::all_gather(const void* in, void* out, std::size_t count, DataType type) {
    enter(Operation::all_gather, count, type);
    copy(out, in, count, type);
}

void SoloBackend::reduce_scatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp) {
    enter(Operation::reduce_scatter, count, type);
    copy(out, in, count, type);
}

void SoloBackend::barrier() { enter(Operation::barrier, 0, DataType::f32); }

void SoloBackend::send(const void*, std::size_t, DataType, int) {
    check(false, "a rank alone has no peer to send to");
}

void SoloBackend::recv(void*, std::size_t, DataType, int) {
    check(false, "a rank alone has no peer to receive from");
}

void SoloBackend::reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp, int) {
    enter(Operation::reduce, count, type);
    copy(out, in, count, type);
}

void SoloBackend::gather(const void* in, void* out, std::size_t count, DataType type, int) {
    enter(Operation::gather, count, type);
    copy(out, in, count, type);
}

void SoloBackend::scatter(const void* in, void* out, std::size_t count, DataType type, int) {
    enter(Operation::scatter, count, type);
    copy(out, in, count, type);
}

void SoloBackend::all_to_all(const void* in, void* out, std::size_t count, DataType type) {
    enter(Operation::all_to_all, count, type);
    copy(out, in, count, type);
}

void SoloBackend::exchange(const void* in, void* out, std::size_t bytes) {
    enter(Operation::split, bytes, DataType::u8);
    copy(out, in, bytes, DataType::u8);
}

void SoloBackend::abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!verdict_) verdict_ = abort_verdict(0, reason);
}

bool SoloBackend::ended() const {
    const std::lock_guard lock(mutex_);
    return verdict_.has_value();
}

}  // namespace ddprun
