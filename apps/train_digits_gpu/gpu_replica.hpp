// GpuReplica: what one rank holds and does in data-parallel training on a GPU: train_digits' Replica with
// parameters, gradients and arithmetic on the device. The sums over ranks are made outside, in the same
// stream:
//
//     replica.begin_epoch(epoch);
//     for (step = 0; step < replica.steps_per_epoch(); ++step) {
//         replica.enqueue_compute(step);
//         work = communicator.async(replica.stream()).all_reduce(replica.sums(), ReduceOp::sum);
//         replica.enqueue_apply(step);
//         work.wait();
//     }
//
// Used by one thread. Throws CollectiveError where CUDA fails.
#pragma once

#include <memory>
#include <vector>

#include "apps/train_digits/replica.hpp"
#include "apps/train_digits_gpu/steps.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun::inline app {

class GpuReplica {
  public:
    // `train` must outlive the replica. 0 <= rank < world_size.
    GpuReplica(const Digits& train, const TrainingPlan& plan, int rank, int world_size,
               std::shared_ptr<const CudaPrimaryContext> context);
    ~GpuReplica();
    GpuReplica(const GpuReplica&) = delete;
    GpuReplica& operator=(const GpuReplica&) = delete;

    std::size_t steps_per_epoch() const { return images_.steps_per_epoch(); }
    void* stream() const noexcept { return stream_; }

    // Epochs are numbered from 0; each has its own order.
    void begin_epoch(int epoch);
    // This rank's sums over its images of the step, into sums(). The step before must have ended.
    void enqueue_compute(std::size_t step);
    // On the device: the gradients, the loss, the right answers.
    std::span<float> sums() { return {reinterpret_cast<float*>(sums_.data()), parameters_count_ + 2}; }
    // Takes sums(), by then those over all ranks, and moves the parameters.
    void enqueue_apply(std::size_t step);

    // Waits for the device; of all ranks' images since begin_epoch.
    EpochResult epoch_result() const;
    // Copies; wait for the device.
    std::vector<float> parameters() const;
    // On the device.
    std::span<float> device_parameters() {
        return {reinterpret_cast<float*>(parameters_.data()), parameters_count_};
    }

  private:
    // Into the batch's host memory; how many this rank has in the step.
    std::size_t gather_images(std::size_t step);
    void wait_for_device() const;

    EpochImages images_;
    TrainingPlan plan_;
    std::size_t parameters_count_;
    std::size_t most_images_;
    std::size_t epoch_images_ = 0;
    std::vector<float> host_pixels_;
    std::vector<std::int32_t> host_labels_;
    std::shared_ptr<const CudaPrimaryContext> context_;
    CudaMemory parameters_;
    CudaMemory velocity_;
    CudaMemory sums_;
    CudaMemory epoch_;
    CudaMemory pixels_;
    CudaMemory labels_;
    CudaMemory activations_;  // all that a batch needs beside
    CudaStream stream_ = nullptr;
};

}  // namespace ddprun::inline app
