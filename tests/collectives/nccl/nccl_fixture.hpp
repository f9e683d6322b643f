// NCCL's stand-in for a test: which library it is, and its faults; and vectors in its device memory.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "tests/helpers/standin_control.hpp"
#include "tests/support/thread_ranks.hpp"

namespace ddprun {

inline constexpr int kStandInRanks = 3;

inline void expect_text(const CollectiveError& error, const std::string& part) {
    expect(std::string(error.what()).find(part) != std::string::npos,
           "expected '" + part + "' in: " + error.what());
}

// The driver is always that of the same library as NCCL.
//
// Sets the variables that the stand-in and the communicators read, for as long as the object lives. Before
// any thread is started.
class StandIn {
  public:
    explicit StandIn(const std::string& faults = "", const std::string& library = DDPRUN_STANDIN_NCCL) {
        set("DDPRUN_BACKEND", "nccl");
        set("DDPRUN_NCCL_LIBRARY", library);
        set("DDPRUN_CUDA_LIBRARY", library);
        set("STANDIN_NCCL", faults);
    }
    StandIn(const StandIn&) = delete;
    StandIn& operator=(const StandIn&) = delete;
    ~StandIn() {
        for (const std::string& name : names_) ::unsetenv(name.c_str());
    }
    void set(const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
        names_.push_back(name);
    }

  private:
    std::vector<std::string> names_;
};

// A function of the stand-in that the library under test does not use.
template <class Function>
Function* standin_function(const char* name) {
    void* const library = ::dlopen(DDPRUN_STANDIN_NCCL, RTLD_NOW | RTLD_LOCAL);
    auto* const found = library != nullptr ? ::dlsym(library, name) : nullptr;
    if (found == nullptr) throw std::runtime_error(std::string("the stand-in has no ") + name);
    return reinterpret_cast<Function*>(found);
}

// With what this process made its communicators since the object was made.
class Makings {
  public:
    Makings() : before_(all().size()) {}
    std::vector<standin::Making> since() const {
        const auto made = all();
        return {made.begin() + static_cast<std::ptrdiff_t>(before_), made.end()};
    }

  private:
    static std::vector<standin::Making> all() {
        const auto ask = standin_function<decltype(standin_makings)>("standin_makings");
        std::vector<standin::Making> made(ask(nullptr, 0));
        ask(made.data(), made.size());
        return made;
    }

    std::size_t before_;
};

inline std::shared_ptr<const CudaPrimaryContext> standin_context(int device = 0) {
    return std::make_shared<CudaPrimaryContext>(CudaDriver::open(std::getenv("DDPRUN_CUDA_LIBRARY")), device);
}

inline CudaStream new_stream(const CudaPrimaryContext& context) {
    const CudaScope scope(context);
    CudaStream stream = nullptr;
    expect(context.driver().stream_create(&stream, kCudaStreamDefault) == CudaResult::success, "stream");
    return stream;
}

template <Element T>
class DeviceVector {
  public:
    explicit DeviceVector(const std::vector<T>& host)
        : memory_(standin_context(), host.size() * sizeof(T)), size_(host.size()) {
        memory_.copy_from(host.data(), host.size() * sizeof(T));
    }
    std::span<T> span() { return {reinterpret_cast<T*>(memory_.data()), size_}; }
    std::vector<T> host() const {
        std::vector<T> values(size_);
        memory_.copy_to(values.data(), size_ * sizeof(T));
        return values;
    }

  private:
    CudaMemory memory_;
    std::size_t size_;
};

}  // namespace ddprun
