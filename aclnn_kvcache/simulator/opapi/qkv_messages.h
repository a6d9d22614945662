/* SPDX-License-Identifier: Apache-2.0 */
/* Code, title and solution of the operator's messages (phase1_revision_a.md, Message titles). The names of parameters
   stand in the text alone: who reads a message takes every name in it for what is wrong. */
#ifndef ACLSIM_OPAPI_QKV_MESSAGES_H_
#define ACLSIM_OPAPI_QKV_MESSAGES_H_

#define BAD_EXTENT "EZ0008", "Invalid_Argument_Tensor_Shape", "Give a tensor of the shape that the others ask for."
#define BAD_SHAPE "EZ0009", "Invalid_Argument_Tensor_Shape", "Give a tensor of the shape that the others ask for."
#define BAD_SHAPES "EZ0010", "Invalid_Argument_Tensor_Shape", "Give tensors whose shapes agree."
#define BAD_AXES "EZ0011", "Invalid_Argument_Tensor_Shape_Dim", "Give a tensor with the right number of dimensions."
#define BAD_RANK "EZ0012", "Invalid_Argument_Tensor_Shape_Dim", "Give a tensor with the right number of dimensions."
#define BAD_FORMAT "EZ0017", "Invalid_Argument_Tensor_Format", "Give a tensor in ND or another public format."
#define BAD_SCENE_DTYPE "EZ0019", "Invalid_Argument_Tensor_Dtype", "Give a tensor of the data type that is asked for."
#define BAD_DTYPE "EZ0020", "Invalid_Argument_Tensor_Dtype", "Give a tensor of the data type that is asked for."
#define BAD_BOUND "EZ0024", "Invalid_Argument", "Give a value within the bounds."
#define BAD_LENGTH "EZ0025", "Invalid_Argument", "Give a list of the length that is asked for."
#define BAD_VALUE "EZ0026", "Invalid_Argument", "Give a value that the operator accepts."
#define BAD_VALUES "EZ0027", "Invalid_Argument", "Give values that agree."
#define BAD_STRIDE "EZ0028", "Invalid_Argument_Tensor_Stride", "Give a view that the kernel can walk."

#endif
