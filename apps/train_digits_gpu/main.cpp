// train_digits_gpu: train_digits' training on GPUs, one for each worker, with gradients summed by NCCL.
//
//   ddprun --nproc-per-node 2 train_digits_gpu --data apps/data/digits.csv
//
// The flags, the output and the exit codes are train_digits'. A second communicator, of the CPU's backend, compares the
// ranks. Sums are f32, so their last bits depend on the number of ranks, unlike those of train_digits.
#include <thread>

#include "apps/train_digits/program.hpp"
#include "apps/train_digits_gpu/steps.hpp"
#include "collectives/error.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_join.hpp"

namespace {

using namespace ddprun;

void require(const char* trouble) {
    if (trouble != nullptr)
        throw CollectiveError(CollectiveErrorCode::system, std::string("CUDA: ") + trouble);
}

// GpuReplica is train_digits' Replica with parameters, gradients and arithmetic on the device. The sums over ranks are made
// outside, in the same stream.
class GpuReplica {
  public:
    GpuReplica(const Digits& digits, const TrainingPlan& plan, int rank, int world_size,
               std::shared_ptr<const CudaPrimaryContext> context)
        : images_(digits, plan.batch_size, plan.seed, rank, world_size),
          context_(std::move(context)),
          state_{kImagePixels,  plan.hidden,
                 kDigitClasses, plan.batch_size / static_cast<std::size_t>(world_size) + 1,
                 plan.momentum, plan.learning_rate},
          memory_(context_, state_.size() * sizeof(float)) {
        state_.memory = reinterpret_cast<float*>(memory_.data());
        copy_in(state_.parameters(), initial_parameters(shape_of(plan), plan.seed));
        copy_in(state_.velocity(), std::vector<float>(state_.count()));
        context_->call("making a CUDA stream", &CudaDriver::stream_create, &stream_, kCudaStreamDefault);
    }
    ~GpuReplica() { context_->driver().stream_destroy(stream_); }
    GpuReplica(const GpuReplica&) = delete;
    GpuReplica& operator=(const GpuReplica&) = delete;

    std::size_t steps_per_epoch() const { return images_.steps_per_epoch(); }
    void* stream() const noexcept { return stream_; }
    // Both are on the device. The sums are the gradients, the loss, the right answers.
    std::span<float> device_parameters() { return {state_.parameters(), state_.count()}; }
    std::span<float> sums() { return {state_.sums(), state_.count() + 2}; }

    void begin_epoch(int epoch) {
        images_.begin_epoch(epoch);
        epoch_images_ = 0;
        copy_in(state_.epoch(), {0, 0});
    }

    // Puts this rank's sums over its images of the step into sums(). The step before must have ended.
    void enqueue_compute(std::size_t step) {
        std::vector<float> pixels;
        std::vector<float> labels;
        images_.visit(step, [&](Image image, std::uint8_t label) {
            pixels.insert(pixels.end(), image.begin(), image.end());
            labels.push_back(label);
        });
        state_.images = labels.size();
        copy_in(state_.pixels(), pixels);
        copy_in(state_.labels(), labels);
        const CudaScope scope(*context_);
        require(enqueue_gradients(state_, stream_));
    }

    // Takes sums(), by then those over all ranks, and moves the parameters.
    void enqueue_apply(std::size_t step) {
        const auto images = static_cast<float>(images_.images_in(step));
        epoch_images_ += static_cast<double>(images);
        state_.scale = 1.0f / images;
        const CudaScope scope(*context_);
        require(enqueue_update(state_, stream_));
    }

    // Both wait for the device. The result is of all ranks' images since begin_epoch.
    EpochResult epoch_result() const {
        const std::vector<float> sums = copy_out(state_.epoch(), 2);
        return {.loss = static_cast<double>(sums[0]) / epoch_images_,
                .accuracy = static_cast<double>(sums[1]) / epoch_images_};
    }
    std::vector<float> parameters() const { return copy_out(state_.parameters(), state_.count()); }

  private:
    std::size_t offset_of(const float* place) const {
        return static_cast<std::size_t>(place - state_.memory) * sizeof(float);
    }
    void copy_in(const float* place, const std::vector<float>& values) {
        if (!values.empty())
            memory_.copy_from(values.data(), values.size() * sizeof(float), offset_of(place));
    }
    std::vector<float> copy_out(const float* place, std::size_t count) const {
        const CudaScope scope(*context_);
        // The steps take microseconds, and what waits for other ranks has been waited for by its Work.
        while (context_->driver().stream_query(stream_) == CudaResult::not_ready) std::this_thread::yield();
        std::vector<float> values(count);
        memory_.copy_to(values.data(), count * sizeof(float), offset_of(place));
        return values;
    }

    EpochImages images_;
    std::shared_ptr<const CudaPrimaryContext> context_;
    DeviceState state_;
    CudaMemory memory_;
    CudaStream stream_ = nullptr;
    double epoch_images_ = 0;
};

std::vector<float> train(Communicator&, const Digits& digits, const Options& options,
                         std::chrono::steady_clock::time_point& started) {
    CommunicatorOptions of_gpu;
    of_gpu.backend = BackendChoice::nccl;
    Communicator gpu = Communicator::from_env(of_gpu);
    of_gpu.device = gpu.device();
    const auto settings = read_nccl_settings(current_environment(), of_gpu, gpu.local_rank());
    GpuReplica replica(
        digits, options.plan, gpu.rank(), gpu.world_size(),
        std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings->cuda_library), settings->device));
    started = std::chrono::steady_clock::now();  // joining is no training
    gpu.broadcast(replica.device_parameters(), 0);
    for (int epoch = 0; epoch < options.plan.epochs; ++epoch) {
        replica.begin_epoch(epoch);
        for (std::size_t step = 0; step < replica.steps_per_epoch(); ++step) {
            replica.enqueue_compute(step);
            const Work work = gpu.async(replica.stream()).all_reduce(replica.sums(), ReduceOp::sum);
            replica.enqueue_apply(step);
            work.wait();
        }
        show_epoch(options, gpu.rank(), epoch, replica.epoch_result());
    }
    return replica.parameters();
}

}  // namespace

int main(int argc, char** argv) {
    return ddprun::run_program("train_digits_gpu", {argv + 1, argv + argc}, train);
}
