// The CUDA driver's stand-in: "device" memory is memory of this process, a stream is a thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun {
namespace standin {

inline constexpr auto kInvalidValue = static_cast<CudaResult>(1);

// Does what is put into it, in order, on a thread of its own.
class Stream {
  public:
    Stream();
    ~Stream();
    void put(std::function<void()> step);
    bool idle();

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> steps_;
    bool busy_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

Stream& stream_of(CudaStream handle);

// True if all of it was allocated as device memory.
bool is_device_memory(const void* data, std::size_t bytes);
// Whether the calling thread has a context.
bool has_context();

// Counts a call of the calling thread, see standin_driver_calls().
void count_call();

// The next event recorded in the stream reports an error.
void break_next_event(CudaStream stream);

}  // namespace standin
}  // namespace ddprun
